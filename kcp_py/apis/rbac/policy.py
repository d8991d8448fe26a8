"""The roles and bindings that every logical cluster inherits.

They are those of Kubernetes (`bootstrap/rbac.json`) and two of kcp: who may enter a cluster, and who administers all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from kcp_py.bootstrap.rbac import policy_objects
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import DefaultObjects
from kcp_py.registry.store.defaults import place_of

GROUP: Final = "rbac.authorization.k8s.io"
KCP_ADMINS: Final = "system:kcp:admin"
"""The group of administrators of all clusters. Unlike `system:masters` its members have what RBAC gives them, and not the wildcard."""
ACCESS_ROLE: Final = "system:kcp:workspace:access"
"""The ClusterRole with the permission to enter a cluster."""

_AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
_UID_SPACE: Final = uuid.UUID("6b637020-7079-5262-8163-706f6c696379")
_UID: Final = b"<uid>"
_TIME: Final = b"<time>"
_KINDS: Final = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}


def _reference(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}


_KCP: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "clusterroles": [{"metadata": {"name": ACCESS_ROLE}, "rules": [{"nonResourceURLs": ["/"], "verbs": ["access"]}]}],
    "clusterrolebindings": [
        {
            "metadata": {"name": "system:kcp:admin"},
            "roleRef": _reference("cluster-admin"),
            "subjects": [{"kind": "Group", "apiGroup": GROUP, "name": KCP_ADMINS}],
        }
    ],
}


@cache
def inherited_objects() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Plural of the resource -> its objects, in the order of their names. Shared: do not change them."""
    return {
        resource: sorted(
            (_complete(kind, obj) for obj in (*policy_objects()[resource], *_KCP.get(resource, ()))),
            key=lambda one: (one["metadata"].get("namespace", ""), one["metadata"]["name"]),
        )
        for resource, kind in _KINDS.items()
    }


def _complete(kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj["metadata"]
    labels = {_BOOTSTRAPPING: "rbac-defaults", **metadata.get("labels", {})}
    head = {"apiVersion": f"{GROUP}/v1", "kind": kind}
    return {**head, **obj, "metadata": {**metadata, "labels": dict(sorted(labels.items())), "annotations": {_AUTOUPDATE: "true"}}}


def inherited_by(resource: str) -> DefaultObjects:
    """What each cluster has of a resource. Only uid and creation differ from cluster to cluster: they are put into encoded objects."""

    def objects(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        time = created_at.encode()
        return {
            place: value.replace(_UID, str(uuid.uuid5(_UID_SPACE, f"{cluster}/{uid}/{resource}/{place}")).encode(), 1).replace(
                _TIME, time, 1
            )
            for place, value in _templates(resource).items()
        }

    return objects


@cache
def _templates(resource: str) -> Mapping[str, bytes]:
    """Place -> encoded object, with marks for uid and creation."""
    found = {}
    for obj in inherited_objects()[resource]:
        metadata = obj["metadata"]
        marked = {"name": metadata["name"], "uid": _UID.decode(), "creationTimestamp": _TIME.decode(), **metadata}
        found[place_of(metadata.get("namespace", ""), metadata["name"])] = encode_stored({**obj, "metadata": marked})
    return found
