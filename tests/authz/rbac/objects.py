"""Roles, bindings and an index of them."""

from __future__ import annotations

from typing import Any

from kcp_py.authz.rbac.bindings import Place
from kcp_py.authz.rbac.index import RBACIndex
from tests.authz.rbac.generated import resource_request

ACCOUNT = "system:serviceaccount:n1:robot"


def binding(role: str, *subjects: dict[str, str], kind: str = "ClusterRole") -> dict[str, Any]:
    return {"roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


def index_of(roles: dict[Place, Any], bindings: dict[Place, Any], inherited: RBACIndex | None = None) -> RBACIndex:
    index = RBACIndex(inherited)
    for place, role in roles.items():
        index.put_role(place, role)
    for place, one in bindings.items():
        index.put_binding(place, one)
    return index


READER = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
GET_PODS = resource_request("get", "", "pods", namespace="n1", name="x")
