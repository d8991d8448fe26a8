"""`RBACAuthorizer`: allows what the roles and bindings of a logical cluster allow.

Source: kubernetes `plugin/pkg/auth/authorizer/rbac/rbac.go`; the permission to enter a cluster is that of kcp
(`pkg/authorization/workspace_content_authorizer.go`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.authz.authorizer import DENIED, Decision, RecallingAuthorizer, aggregate
from kcp_py.authz.rbac.index import RBACIndex
from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.authz.rbac.resolver import Rules
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import CLUSTER_NAME_EXTRA, SERVICE_ACCOUNT_PREFIX, UserInfo

ACCESS_DENIED: Final = DENIED._replace(reason="access denied")
"""The answer for a caller that may not enter. It is the same where the cluster does not exist."""


_KEPT_DECISIONS: Final = 4096
"""Bounded by number and not by the budget of clusters: those of users and not of clusters, at about 1 KB each, and at most 4 KB."""
_LONGEST_QUESTION: Final = 1000
"""Characters of the user, of the path and of the name. Decisions about longer ones are not kept: impersonated users and objects of field
selectors have names of many kilobytes."""
_IMPERSONATE: Final = "impersonate"
"""How the verbs begin that let a caller act as another user."""


Admits = Callable[[UserInfo, Name], Awaitable[bool]]
"""Whether a user may enter a cluster."""


class _Decided(NamedTuple):
    """A decision, and the state of the index with which it was made."""

    state: object
    decision: Decision | None


class RBACAuthorizer(RecallingAuthorizer):
    """Decides from the roles and bindings of the cluster and from those that all clusters inherit.

    It has no opinion about requests over all clusters.
    """

    announces_changes: Final = True
    """By `RBACIndexes.listen`."""

    def __init__(self, indexes: RBACIndexes, *, require_access: bool = True, admits: Admits | None = None) -> None:
        """Prepare.

        Args:
            indexes: the roles and bindings.
            require_access: whether a caller without the verb `access` on `/` is refused whatever else is allowed.
            admits: whether something else than RBAC lets a user enter a cluster. Asked where RBAC does not.
        """
        self._indexes = indexes
        self._admits = admits
        self._require_access = require_access
        self._decided: LRU[tuple[object, ...], _Decided] = LRU(_KEPT_DECISIONS)
        self._impersonations: LRU[tuple[object, ...], _Decided] = LRU(_KEPT_DECISIONS)
        """Decisions about the parts of other users, which have no path. They do not displace those of requests."""

    def recall(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """The permission that is kept for the present roles and bindings; None where there is none, or where those have to be read."""
        if isinstance(cluster, Wildcard) or (index := self._indexes.current(cluster)) is None:
            return None
        kept = self._decided if info.path else self._impersonations
        known = kept.get((cluster, user.name, user.groups, _lives_in(user, cluster), info))
        if known is None or known.state is not index.state:
            return None
        decision = known.decision
        # What else lets a user enter is not kept here.
        return decision if decision is not None and decision.allowed else None

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """See `Authorizer`.

        Raises:
            StorageError: the roles and bindings cannot be read.
        """
        if isinstance(cluster, Wildcard):
            return None
        index = self._indexes.current(cluster) or await self._indexes.get(cluster)
        if info.selectors is not None:
            # Roles do not name selectors.
            info = info._replace(selectors=None)
        length = len(user.name) + sum(map(len, user.groups)) + len(info.path) + len(info.name)
        kept = self._decided if info.path else self._impersonations
        # Reviews have no path, either. Their questions do not displace those of requests.
        if length > _LONGEST_QUESTION or not (info.path or info.verb.startswith(_IMPERSONATE)):
            return await self._entering(self._decide(index, user, cluster, info), index, user, cluster, info=info)
        key = (cluster, user.name, user.groups, _lives_in(user, cluster), info)
        known = kept.get(key)
        if known is None or known.state is not index.state:
            known = _Decided(index.state, self._decide(index, user, cluster, info))
            kept.set(key, known)
        if known.decision is ACCESS_DENIED:
            return await self._entering(ACCESS_DENIED, index, user, cluster, info=info)
        return known.decision

    async def _entering(
        self, decision: Decision | None, index: RBACIndex, user: UserInfo, cluster: Name, *, info: RequestInfo
    ) -> Decision | None:
        """The decision about a user that something else than RBAC may let in."""
        if decision is not ACCESS_DENIED or self._admits is None or not await self._admits(user, cluster):
            return decision
        return self._decide(index, user, cluster, info, admitted=True)

    def _decide(self, index: RBACIndex, user: UserInfo, cluster: Name, info: RequestInfo, *, admitted: bool = False) -> Decision | None:
        user = index.known(user)
        if self._require_access and not admitted and not index.may_enter(user) and not _lives_in(user, cluster):
            return ACCESS_DENIED
        binding = index.allowing(user, info)
        if binding is not None:
            return Decision(allowed=True, reason=f"RBAC: allowed by {binding.describe(user)}")
        errors = index.missing_roles(user, info.namespace)
        if not errors:
            return None
        return Decision(allowed=False, reason=f"RBAC: {aggregate(errors)}", final=False)

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:
        """The rules that apply to a user in a namespace of a cluster.

        Raises:
            StorageError: the roles and bindings cannot be read.
        """
        index = await self._indexes.get(cluster)
        user = index.known(user)
        return Rules(index.rules_for(user, namespace), index.missing_roles(user, namespace))


def _lives_in(user: UserInfo, cluster: Name) -> bool:
    """Whether the user is a service account of the cluster, which needs no permission to be there."""
    return user.name.startswith(SERVICE_ACCOUNT_PREFIX) and user.extra.get(CLUSTER_NAME_EXTRA) == (cluster,)
