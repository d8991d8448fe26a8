"""`GrantAuthorizer`: allows what ClusterAccessGrants allow, in each of their clusters and over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.authz.authorizer import Decision
from kcp_py.authz.grants.grant import Grant, Subject, subjects_of
from kcp_py.authz.grants.index import GrantIndex
from kcp_py.authz.grants.sight import GrantedSight
from kcp_py.authz.rbac.rules import PolicyRule, url_matches
from kcp_py.golang.quoting import go_quote
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import UserInfo

DISCOVERY: Final = PolicyRule(("get", "head"), non_resource_urls=("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"))
"""What every grant allows besides its rules: clients read it before anything else."""
_READS: Final = frozenset(("get", "list", "watch"))
"""Over all clusters nothing else is served. The other verbs are for single clusters, `impersonate` among them."""
_KEPT_DECISIONS: Final = 4096
"""Bounded by number and not by the budget of clusters: they belong to users, and take about 1 KB each."""
_KEPT_SIGHTS: Final = 256
_LONGEST_QUESTION: Final = 1000
"""Characters of the user and the request of which a decision is kept."""


class _Decided(NamedTuple):
    """The grants that apply to a request, and the version of the index that said so."""

    version: object
    grants: Sequence[Grant]


class GrantAuthorizer:
    """Decides by grants. It stands behind RBAC, which asks `admits` about entering a cluster."""

    announces_changes: Final = True
    """By `GrantIndex.listen` for single clusters. Watches over all clusters follow their sight."""

    def __init__(self, index: GrantIndex) -> None:
        self._index = index
        self._decided: LRU[tuple[object, ...], _Decided] = LRU(_KEPT_DECISIONS)
        self._sights: LRU[tuple[object, ...], GrantedSight] = LRU(_KEPT_SIGHTS)

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """See `Authorizer`.

        Raises:
            StorageError: the grants cannot be read.
        """
        index = self._index
        await index.refresh()
        if index.empty:
            return None
        subjects = tuple(subjects_of(user, cluster))
        if not self._granted(subjects, info):
            return None
        if isinstance(cluster, Wildcard):
            return await self._everywhere(subjects, info)
        await index.refresh_clusters(cluster)
        for grant in self._granted(subjects, info):
            if index.exists(cluster) and index.selects(grant.selector, cluster):
                return Decision(allowed=True, reason=f"grant: allowed by ClusterAccessGrant {go_quote(grant.name)}")
        return None

    async def admits(self, user: UserInfo, cluster: Name) -> bool:
        """Whether a grant lets a user enter a cluster.

        Raises:
            StorageError: the grants cannot be read.
        """
        return bool(await self._in_cluster(user, cluster))

    async def rules_for(self, user: UserInfo, cluster: Name) -> Sequence[PolicyRule]:
        """What grants allow a user in a cluster.

        Raises:
            StorageError: the grants cannot be read.
        """
        found = await self._in_cluster(user, cluster)
        return (*(rule for grant in found for rule in grant.rules), DISCOVERY) if found else ()

    async def _in_cluster(self, user: UserInfo, cluster: Name) -> Sequence[Grant]:
        """The grants of a user that select a cluster."""
        index = self._index
        await index.refresh()
        subjects = tuple(subjects_of(user, cluster))
        if index.empty or not any(True for _ in index.grants_of(subjects)):
            return ()
        await index.refresh_clusters(cluster)
        if not index.exists(cluster):
            return ()
        return tuple({grant.name: grant for grant in index.grants_of(subjects) if index.selects(grant.selector, cluster)}.values())

    async def _everywhere(self, subjects: Sequence[Subject], info: RequestInfo) -> Decision | None:
        if info.is_resource and (info.verb not in _READS or info.subresource):
            return None
        await self._index.refresh_clusters()
        if not self._granted(subjects, info):
            return None
        return Decision(allowed=True, reason="grant: allowed by ClusterAccessGrants", sight=self._sight(subjects, info))

    def _granted(self, subjects: Sequence[Subject], info: RequestInfo) -> Sequence[Grant]:
        """The grants that allow a request, in the clusters that each of them selects."""
        index = self._index
        # Neither namespaces nor paths of objects count.
        name = info.name if index.names_objects else ""
        key = (
            (subjects, info.verb, info.group, info.resource, info.subresource, name)
            if info.is_resource
            else (subjects, info.verb, info.path)
        )
        known = self._decided.get(key)
        if known is not None and known.version is index.version:
            return known.grants
        if info.is_resource:
            grants = tuple({grant.name: grant for grant in index.grants_of(subjects) if grant.allows(info)}.values())
        else:
            grants = tuple({grant.name: grant for grant in index.grants_of(subjects)}.values()) if _is_general(info) else ()
        if sum(len(name) for _, name in subjects) + len(info.path) + len(info.name) <= _LONGEST_QUESTION:
            self._decided.set(key, _Decided(index.version, grants))
        return grants

    def _sight(self, subjects: Sequence[Subject], info: RequestInfo) -> GrantedSight:
        """What a user has in sight. Requests with one question share it."""
        index = self._index
        asked = (
            UNPARSED._replace(is_resource=True, verb=info.verb, group=info.group, resource=info.resource, name=info.name)
            if info.is_resource
            else UNPARSED._replace(verb="get", path="/api")
        )
        key = (subjects, asked)
        sight = self._sights.get(key)
        if sight is None or not index.follows(sight):
            sight = GrantedSight(
                subjects,
                lambda: index.set_of(frozenset(grant.selector for grant in self._granted(subjects, asked))),
                known_since=index.changed_at(subjects),
                names=index.names,
                scope="*grants:" + "\n".join(sorted(f"{kind}:{name}" for kind, name in subjects)),
            )
            index.follow(sight)
            self._sights.set(key, sight)
        return sight


def _is_general(info: RequestInfo) -> bool:
    """Whether every grant allows a request: discovery, and the permission to be in a cluster."""
    if info.path == "/" and info.verb == "access":
        return True
    return info.verb in DISCOVERY.verbs and any(url_matches(url, info.path) for url in DISCOVERY.non_resource_urls)
