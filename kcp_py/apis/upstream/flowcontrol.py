"""The FlowSchemas and PriorityLevelConfigurations that every cluster has where it serves the kinds, without storing them.

Source: k8s.io/apiserver `pkg/apis/flowcontrol/bootstrap`, kubernetes `pkg/registry/flowcontrol/ensurer`. Upstream creates them when it
starts, and again after they were deleted. Without an object of a client of the same name, they are as the program has them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.bootstrap.flowcontrol import flow_control
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import DefaultObjects

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_KINDS: Final = {"flowschemas": "FlowSchema", "prioritylevelconfigurations": "PriorityLevelConfiguration"}
_UID_SPACE: Final = uuid.UUID("6b637020-7079-5066-8c6f-77636f6e7472")


def _default_objects(plural: str) -> DefaultObjects:
    def objects(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        return {name: _encoded(plural, name, spec, (cluster, uid, created_at)) for name, spec in flow_control()[plural].items()}

    return objects


def _encoded(plural: str, name: str, spec: Mapping[str, Any], origin: tuple[str, str, str]) -> bytes:
    cluster, uid, created_at = origin
    metadata = {
        "name": name,
        # It follows from the cluster's, so that it ends with it.
        "uid": str(uuid.uuid5(_UID_SPACE, f"{cluster}/{uid}/{plural}/{name}")),
        "generation": 1,
        "creationTimestamp": created_at,
        "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
    }
    return encode_stored({"apiVersion": f"{_GROUP}/v1", "kind": _KINDS[plural], "metadata": metadata, "spec": spec, "status": {}})


FLOW_CONTROL: Final[Mapping[GroupResource, DefaultObjects]] = {GroupResource(_GROUP, plural): _default_objects(plural) for plural in _KINDS}
"""Resource -> the objects that clusters have of it."""
