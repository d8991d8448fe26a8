"""The roles and bindings that every logical cluster inherits.

They are those of Kubernetes (`bootstrap/rbac.json`), two of kcp (who may enter a cluster, and who administers all of them), and those of
operators, who manage clusters without access to their content.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from kcp_py.bootstrap.rbac import policy_objects
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import DefaultObjects, ServedResource
from kcp_py.registry.store.defaults import place_of

GROUP: Final = "rbac.authorization.k8s.io"
KCP_ADMINS: Final = "system:kcp:admin"
"""The group of administrators of all clusters. Unlike `system:masters` its members have what RBAC gives them, and not the wildcard."""
CLUSTER_OPERATORS: Final = "system:kcp:cluster-operator"
"""The group of operators, and the ClusterRole that every cluster gives them. Nothing in it leads to further permissions: it contains no
secrets, tokens, certificates, users or grants, and no verb by which roles are bound. Names of groups that begin with `system:kcp:` are
withheld from impersonation, certificates and identity providers of single clusters."""
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


def _binding(group: str, role: str) -> dict[str, Any]:
    """Gives a role to a group. The binding has the name of the group."""
    subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group}]
    return {"metadata": {"name": group}, "roleRef": _reference(role), "subjects": subjects}


_READ: Final = ["get", "list", "watch"]
_OPERATOR_RULES: Final = [
    {"nonResourceURLs": ["/"], "verbs": ["access"]},
    {
        "apiGroups": ["core.kcp.io"],
        "resources": ["logicalclusters"],
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": _READ},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": _READ},
    {"apiGroups": [GROUP], "resources": ["clusterroles", "roles"], "verbs": _READ},
    {"apiGroups": [GROUP], "resources": ["clusterrolebindings", "rolebindings"], "verbs": ["delete", *_READ]},
    {"apiGroups": ["access.kcp-py.dev"], "resources": ["clusteraccessgrants"], "verbs": _READ},
]

_KCP: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "clusterroles": [
        {"metadata": {"name": ACCESS_ROLE}, "rules": [{"nonResourceURLs": ["/"], "verbs": ["access"]}]},
        {"metadata": {"name": CLUSTER_OPERATORS}, "rules": _OPERATOR_RULES},
    ],
    "clusterrolebindings": [_binding(KCP_ADMINS, "cluster-admin"), _binding(CLUSTER_OPERATORS, CLUSTER_OPERATORS)],
}


@cache
def _kcp_places() -> frozenset[str]:
    return frozenset(obj["metadata"]["name"] for objects in _KCP.values() for obj in objects)


def without_kcp_policy(resource: ServedResource) -> ServedResource:
    """A resource without the roles and bindings of kcp, for a server whose one cluster is all that there is."""
    inherited = resource.default_objects
    if inherited is None or resource.group != GROUP or resource.resource not in _KCP:
        return resource

    def objects(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        return {place: value for place, value in inherited(cluster, uid, created_at).items() if place not in _kcp_places()}

    return replace(resource, default_objects=objects)


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
