"""The two PriorityClasses that every cluster has where it serves the kind, without storing them.

Source: kubernetes `pkg/apis/scheduling/v1/helpers.go`. Upstream creates them when it starts (`pkg/registry/scheduling/rest`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.rendering import encode_stored

PRIORITY_CLASSES: Final = GroupResource("scheduling.k8s.io", "priorityclasses")


class SystemClass(NamedTuple):
    """One of them."""

    value: int
    description: str


SYSTEM_CLASSES: Final[Mapping[str, SystemClass]] = {
    "system-cluster-critical": SystemClass(
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": SystemClass(2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
}
"""By name, in the order of their keys."""

_UID_SPACE: Final = uuid.UUID("6b637020-7079-5072-8969-6f7269747921")


def system_priority_classes(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
    """A `registry.resource.DefaultObjects`."""
    return {
        name: encode_stored(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {
                    "name": name,
                    # It follows from the cluster's, so that it ends with it.
                    "uid": str(uuid.uuid5(_UID_SPACE, f"{cluster}/{uid}/{name}")),
                    "generation": 1,
                    "creationTimestamp": created_at,
                },
                "value": found.value,
                "description": found.description,
                "preemptionPolicy": "PreemptLowerPriority",
            }
        )
        for name, found in SYSTEM_CLASSES.items()
    }
