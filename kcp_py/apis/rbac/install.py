"""The kinds of the group."""

from __future__ import annotations

from functools import partial

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.kindrules import Installed, KindRules
from kcp_py.apis.rbac.columns import BINDING, ROLE
from kcp_py.apis.rbac.policy import GROUP, inherited_by
from kcp_py.apis.rbac.strategy import ClusterRoleStrategy, RoleBindingStrategy, RoleStrategy


def install() -> Installed:
    """The rules of each kind."""
    rules = {
        "roles": KindRules(RoleStrategy, ROLE),
        "clusterroles": KindRules(ClusterRoleStrategy, ROLE),
        "rolebindings": KindRules(RoleBindingStrategy, BINDING),
        "clusterrolebindings": KindRules(partial(RoleBindingStrategy, namespaced=False), BINDING),
    }
    return {
        GroupResource(GROUP, resource): one._replace(default_objects=inherited_by(resource), inherited=True)
        for resource, one in rules.items()
    }
