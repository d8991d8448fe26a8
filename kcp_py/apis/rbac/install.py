"""The kinds of the group."""

from __future__ import annotations

from functools import partial
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.kindrules import Installed, KindRules
from kcp_py.apis.rbac.columns import BINDING, ROLE
from kcp_py.apis.rbac.strategy import ClusterRoleStrategy, RoleBindingStrategy, RoleStrategy

_GROUP: Final = "rbac.authorization.k8s.io"


def install() -> Installed:
    """The rules of each kind."""
    return {
        GroupResource(_GROUP, "roles"): KindRules(RoleStrategy, ROLE),
        GroupResource(_GROUP, "clusterroles"): KindRules(ClusterRoleStrategy, ROLE),
        GroupResource(_GROUP, "rolebindings"): KindRules(RoleBindingStrategy, BINDING),
        GroupResource(_GROUP, "clusterrolebindings"): KindRules(partial(RoleBindingStrategy, namespaced=False), BINDING),
    }
