"""`RBACWithGrants`: roles, bindings, operators and grants as one authorizer, the one of the type RBAC in a configuration."""

from __future__ import annotations

from typing import Final

from kcp_py.authz.authorizer import Decision, RecallingAuthorizer
from kcp_py.authz.grants.authorizer import GrantAuthorizer
from kcp_py.authz.rbac.authorizer import RBACAuthorizer
from kcp_py.authz.rbac.resolver import Rules
from kcp_py.authz.static import ClusterOperators
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo


class RBACWithGrants(RecallingAuthorizer):
    """Asks RBAC first, and then the grants. Over all clusters it knows the operators of clusters, too.

    A caller that may not enter a cluster is refused by RBAC, which knows grants for that.
    """

    announces_changes: Final = True
    """As all of them."""

    def __init__(self, rbac: RBACAuthorizer, grants: GrantAuthorizer) -> None:
        self._rbac = rbac
        self._grants = grants
        self._operators = ClusterOperators()

    def recall(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """A permission that RBAC has kept."""
        return self._rbac.recall(user, cluster, info)

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """See `Authorizer`.

        Raises:
            StorageError: roles, bindings or grants cannot be read.
        """
        decision = await self._rbac.authorize(user, cluster, info)
        if decision is not None and decision.final:
            return decision
        if isinstance(cluster, Wildcard):
            decision = await self._operators.authorize(user, cluster, info)
            if decision is not None:
                return decision
        return await self._grants.authorize(user, cluster, info) or decision

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:
        """The rules in a namespace of a cluster. Grants hold in all namespaces.

        Raises:
            StorageError: roles, bindings or grants cannot be read.
        """
        found = await self._rbac.rules_for(user, cluster, namespace)
        granted = await self._grants.rules_for(user, cluster)
        return found._replace(rules=(*found.rules, *granted)) if granted else found
