"""`Registry`: what the verbs work with, as the composition root puts it together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.continue_token import ContinueTokens
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.conversions import WildcardConversions
from kcp_py.registry.rest.remaining import Remaining
from kcp_py.registry.store import Access
from kcp_py.registry.store.scan import ServedScan
from kcp_py.registry.store.visible import Visible
from kcp_py.request.sight import Sight
from kcp_py.watchcache import Fanout

_CLUSTERS_AT_ONCE: Final = 100


class Clusters(Protocol):
    """The logical clusters: `tenancy.LogicalClusters`."""

    @property
    def prefix(self) -> str:
        """The prefix of the keys of LogicalClusters."""
        ...

    def cached(self, cluster: Name) -> ClusterState | None:
        """The state of a cluster, if it is at hand."""
        ...

    def peek(self, cluster: Name) -> ClusterState | None:
        """`cached`, without counting as a use."""
        ...

    async def state(self, cluster: Name) -> ClusterState | None:
        """The state of an existing cluster."""
        ...

    def uncreated(self, cluster: Name) -> ClusterState:
        """The state of a cluster that has no object yet."""
        ...

    def names(self) -> AsyncGenerator[Name, None]:
        """All clusters that exist, in the order of keys."""
        ...

    async def states(self, first: Name | None, limit: int, revision: int) -> Sequence[ClusterState]:
        """The clusters that existed at a revision (0: now), from `first` on."""
        ...

    async def confirm(self, cluster_state: ClusterState) -> None:
        """Check that a state is still that of its cluster.

        Raises:
            StaleStateError: it is not.
        """
        ...

    def invalidate(self, cluster: Name) -> None:
        """Forget a cluster's state."""
        ...


@dataclass(slots=True, kw_only=True)
class Registry:
    """The store, what each cluster serves, and the changes."""

    access: Access
    tables: ResourceTables
    wildcard: WildcardTables
    clusters: Clusters
    fanout: Fanout
    tokens: ContinueTokens
    conversions: WildcardConversions = field(default_factory=WildcardConversions)
    remaining: Remaining = field(init=False)
    """Counts the rest of lists over all clusters."""

    def __post_init__(self) -> None:
        self.remaining = Remaining(self.access.storage)

    def serving(self, served: Served, visible: Visible) -> ServedScan | None:
        """Which visible clusters serve a resource, for a scan over all of them; None where the scan needs not know."""
        return self.wildcard.serving(served, visible, state_of=self.clusters.state, states=self.clusters.states)

    async def states_serving(self, served: Served, sight: Sight) -> AsyncGenerator[ClusterState, None]:
        """All clusters in sight that exist and serve a resource."""
        first: Name | None = None
        while page := await self.clusters.states(first, _CLUSTERS_AT_ONCE + 1, 0):
            for cluster_state in page[:_CLUSTERS_AT_ONCE]:
                if sight.sees(cluster_state.name) and await self.tables.glance_in(cluster_state.name, served) is not None:
                    yield cluster_state
            if len(page) <= _CLUSTERS_AT_ONCE:
                return
            first = page[-1].name

    async def forget(self, cluster: Name, attempt: int) -> None:
        """See `forget`."""
        await forget(self.clusters, self.tables, cluster, attempt)


async def forget(clusters: Clusters, tables: ResourceTables, cluster: Name, attempt: int) -> None:
    """Forget what a request relied on that is outdated, before its next attempt. The fan-out may still be on its way.

    Args:
        clusters: whose state may be outdated.
        tables: which may be outdated.
        cluster: of the request.
        attempt: how many attempts have failed before this one: later ones wait longer.
    """
    clusters.invalidate(cluster)
    tables.invalidate(cluster)
    if attempt:
        await asyncio.sleep(0.001 * 2**attempt)


def changing() -> StatusError:
    """503 for a request of which every attempt has met a change of its cluster or of its CRD."""
    return errors.service_unavailable("the logical cluster is changing, please try again", retry_after_seconds=1)
