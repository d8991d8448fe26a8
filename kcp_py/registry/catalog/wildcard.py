"""`WildcardTables`: the resources of requests over all logical clusters, which are those that at least one cluster serves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.table import ResourceTable, ResourceUnion
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.store.defaults import crd_revision_at
from kcp_py.registry.store.scan import ServedScan, StateScan
from kcp_py.registry.store.visible import ALL_VISIBLE, Visible
from kcp_py.request.sight import EVERY_CLUSTER, Sight
from kcp_py.storage.contract import Storage
from kcp_py.storage.keys import crd_name_of
from kcp_py.watchcache import Fanout

_STATES_AT_ONCE: Final = 501
MOST_ASKED: Final = 1_000
"""Clusters that are asked how they define a resource, for the columns of a Table."""

StateOf = Callable[[Name], Awaitable[ClusterState | None]]
"""The state of a cluster; None where there is no such cluster."""


class WildcardTables:
    """Finds resources over all clusters by the tables of those that may serve them."""

    def __init__(self, storage: Storage, fanout: Fanout, tables: ResourceTables, *, defaults: Collection[GroupResource] = ()) -> None:
        """Find resources in tables.

        Args:
            storage: the store.
            fanout: its changes.
            tables: of the clusters.
            defaults: the resources, among those that not every cluster serves, of which clusters may have default objects.
        """
        self._storage = storage
        self._fanout = fanout
        self._tables = tables
        self._defaults = frozenset(defaults)

    async def find(
        self, group: str, version: str, resource: str, *, sight: Sight, accept: Callable[[ServedResource], bool] = lambda _: True
    ) -> Served | None:
        """The resource as one cluster serves it. One CRD must decide, for example, on the names of the kind.

        Args:
            group: the API group.
            version: the version.
            resource: the plural.
            sight: the clusters that count.
            accept: what else has to hold.

        Returns:
            None where no cluster serves such a resource.
        """
        if builtin := self._tables.builtin(group, version, resource):
            return builtin
        time_slice = TimeSlice()
        async with aclosing(self.each_cluster(group, resource, sight=sight)) as clusters:
            async for cluster in clusters:
                for served in await self._tables.versions_in(cluster, GroupResource(group, resource)):
                    if served.resource.version == version and accept(served.resource):
                        return served
                await time_slice.yield_if_due()
        return None

    async def forms(self, group: str, version: str, resource: str, *, sight: Sight) -> Sequence[ServedResource]:
        """The different forms in which clusters serve a resource in a version; clusters with equal ones share one.

        Of very many clusters `MOST_ASKED` are asked.
        """
        found: dict[ServedResource, None] = {}
        time_slice = TimeSlice()
        asked = 0
        async with aclosing(self.each_cluster(group, resource, sight=sight)) as clusters:
            async for cluster in clusters:
                for served in await self._tables.versions_in(cluster, GroupResource(group, resource)):
                    if served.resource.version == version:
                        found[served.resource] = None
                asked += 1
                if asked == MOST_ASKED:
                    break
                await time_slice.yield_if_due()
        return list(found)

    async def each_cluster(self, group: str, resource: str, *, sight: Sight) -> AsyncGenerator[Name, None]:
        """The clusters in sight that may serve a resource that not every cluster serves, each once."""
        if (few := _few(sight)) is not None:
            for name in sorted(few):
                yield Name(name)
            return
        sources = self._tables.sources
        seen: set[Name] = set()
        for at, source in enumerate(sources, start=1):
            async with aclosing(source.each_cluster({GroupResource(group, resource)})) as pairs:
                async for _, cluster in pairs:
                    if cluster in seen or not (sight.unrestricted or sight.sees(cluster)):
                        continue
                    if at < len(sources):
                        # The last source has most clusters, and names each once.
                        seen.add(cluster)
                    yield cluster

    def serving(self, served: Served, visible: Visible, *, state_of: StateOf, states: StateScan) -> ServedScan | None:
        """For a scan over all clusters, which of them serve a resource: all that exist, or those in whose tables it is.

        None where no cluster has default objects of the resource. The CRD of one cluster cannot decide that: the same name can be
        another kind there, or its CRD can terminate.

        Args:
            served: the resource, as some cluster serves it.
            visible: the clusters of the scan.
            state_of: the state of one cluster.
            states: all clusters that exist.
        """
        resource = served.resource
        if resource.inherited or not (resource.lists_defaults or resource.group_resource in self._defaults):
            return None

        async def existing(first: Name | None, limit: int, revision: int) -> Sequence[tuple[ClusterState, Served]]:
            found = await _visible_states(states, visible, first, limit, revision=revision, key_of=resource.keys.cluster_prefix)
            return [(cluster_state, served) for cluster_state in found]

        async def defining(first: Name | None, limit: int, revision: int) -> Sequence[tuple[ClusterState, Served]]:
            prefix_of = resource.keys.cluster_prefix
            clusters = [one async for one in self.each_cluster(resource.group, resource.resource, sight=EVERY_CLUSTER)]
            found: list[tuple[ClusterState, Served]] = []
            time_slice = TimeSlice()
            # In the order of keys, which is not that of names.
            for cluster in sorted(
                (name for name in clusters if visible.sees(name) and (first is None or prefix_of(name) >= prefix_of(first))), key=prefix_of
            ):
                await time_slice.yield_if_due()
                table = await self._tables.get(cluster)
                own = table.find_same(served)
                cluster_state = await state_of(cluster) if own is not None else None
                if own is not None and own.origin is not None and self._may_be_other(cluster, table, own.origin.revision, revision):
                    written = await crd_revision_at(self._storage, own.origin, revision)
                    own = own._replace(origin=own.origin._replace(revision=written)) if written else None
                if own is not None and cluster_state is not None:
                    found.append((cluster_state, own))
                    if len(found) == limit:
                        break
            return found

        return defining if served.per_cluster else existing

    def _may_be_other(self, cluster: Name, table: ResourceTable, written: int, revision: int) -> bool:
        """Whether a CRD that was written at one revision may have been another one at the revision that is read."""
        return written > revision or self._fanout.revision < revision or self._tables.cached(cluster) is not table

    async def union(self, sight: Sight) -> ResourceUnion:
        """The resources of all clusters in sight together, for discovery over all clusters.

        Each resource is described as the first cluster that has it describes it.
        """
        shown = await (self._shown_in(few) if (few := _few(sight)) is not None else self._shown(sight))
        return self._tables.union_of(one for resources in shown.values() for one in resources)

    async def _shown(self, sight: Sight) -> Mapping[GroupResource, Sequence[ServedResource]]:
        """What discovery shows, by the first cluster of each resource."""
        found: dict[GroupResource, Sequence[ServedResource]] = {}
        time_slice = TimeSlice()
        for source in self._tables.sources:
            ordered = sorted(set(await source.group_resources()) - found.keys(), key=crd_name_of)
            wanted = set(ordered)
            own: dict[GroupResource, Sequence[ServedResource]] = {}
            async with aclosing(source.each_cluster(wanted)) as pairs:
                async for resource, cluster in pairs:
                    await time_slice.yield_if_due()
                    if not (sight.unrestricted or sight.sees(cluster)):
                        continue
                    if shown := _discoverable(await self._tables.versions_in(cluster, resource)):
                        own[resource] = shown
                        wanted.discard(resource)
            found.update({resource: own[resource] for resource in ordered if resource in own})
        return found

    async def _shown_in(self, clusters: Collection[str]) -> Mapping[GroupResource, Sequence[ServedResource]]:
        """`_shown` of few clusters."""
        found: dict[GroupResource, Sequence[ServedResource]] = {}
        time_slice = TimeSlice()
        for name in sorted(clusters):
            await time_slice.yield_if_due()
            table = await self._tables.get(Name(name))
            for resource in {one.resource.group_resource for one in table.served.values()} - found.keys():
                if shown := _discoverable(table.find_all(resource)):
                    found[resource] = shown
        return {resource: found[resource] for resource in sorted(found, key=crd_name_of)}


def _few(sight: Sight) -> Collection[str] | None:
    return None if sight.unrestricted else sight.few()


def _discoverable(versions: Sequence[Served]) -> Sequence[ServedResource]:
    return [one.resource for one in versions if one.resource.discoverable]


async def _visible_states(
    states: StateScan, visible: Visible, first: Name | None, limit: int, *, revision: int, key_of: Callable[[Name], str]
) -> Sequence[ClusterState]:
    """The visible clusters that existed at a revision, from the first one on, in the order of keys; `limit` of them (0: all)."""
    if visible is ALL_VISIBLE:
        return await states(first, limit, revision)
    found: list[ClusterState] = []
    if visible.few is not None:
        for name in sorted(map(Name, visible.few), key=key_of):
            if (first is not None and key_of(name) < key_of(first)) or not visible.sees(name):
                continue
            found += [one for one in await states(name, 1, revision) if one.name == name]
            if limit and len(found) >= limit:
                break
        return found
    while page := await states(first, _STATES_AT_ONCE, revision):
        found += [one for one in page[: _STATES_AT_ONCE - 1] if visible.sees(one.name)]
        if len(page) < _STATES_AT_ONCE or (limit and len(found) >= limit):
            found += [one for one in page[_STATES_AT_ONCE - 1 :] if visible.sees(one.name)]
            break
        first = page[-1].name
    return found
