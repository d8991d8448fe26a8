"""Custom resources over all clusters at once: which clusters define what.

The index holds, for every CRD of every cluster, its name alone. It is read from the store when a wildcard request first needs it
and follows the feed from then on, so a server that nobody asks for wildcards of custom resources does not pay for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import CompiledDefinition
from kcp_py.registry.catalog.tables import ResourceTable, ResourceTables
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.scope import ClusterScope
from kcp_py.registry.store.scan import ScopeScan, ServedScan, definition_at
from kcp_py.storage.contract import Storage, readable
from kcp_py.storage.keys import ResourceKeys
from kcp_py.watchcache import Feed, ObjectEvent

ScopeOf = Callable[[Name], Awaitable[ClusterScope | None]]
"""The scope of a cluster; None where there is no such cluster."""


class WildcardIndex:
    """CRD name -> the clusters that have it."""

    def __init__(self, storage: Storage, feed: Feed, tables: ResourceTables, definition_keys: ResourceKeys) -> None:
        self._storage = storage
        self._feed = feed
        self._tables = tables
        self._keys = definition_keys
        self._clusters: dict[str, dict[Name, None]] | None = None
        self._filling = asyncio.Lock()
        self._changed_meanwhile: list[ObjectEvent] = []
        self._gaps = 0
        feed.listen(definition_keys.prefix, self._definition_changed)
        feed.listen_gaps(self.clear)

    async def find(
        self, group: str, version: str, resource: str, *, accept: Callable[[ServedResource], bool] = lambda _: True
    ) -> Served | None:
        """The resource as some cluster serves it, for what one definition has to decide: the names of the kind.

        Args:
            group: the API group.
            version: the version.
            resource: the plural.
            accept: what else has to hold.

        Returns:
            None where no cluster serves such a resource.
        """
        if builtin := self._tables.builtin(group, version, resource):
            return builtin
        index = await self._filled()
        time_slice = TimeSlice()
        for cluster in list(index.get(f"{resource}.{group or 'core'}", ())):
            table = await self._tables.get(cluster)
            if (served := table.find(group, version, resource)) and accept(served.resource):
                return served
            await time_slice.yield_if_due()
        return None

    async def definitions(self, group: str, version: str, resource: str) -> Sequence[ServedResource]:
        """The different definitions of a custom resource in a version; clusters with equal ones share one."""
        found: dict[ServedResource, None] = {}
        time_slice = TimeSlice()
        for cluster in list((await self._filled()).get(f"{resource}.{group or 'core'}", ())):
            if served := (await self._tables.get(cluster)).find(group, version, resource):
                found[served.resource] = None
            await time_slice.yield_if_due()
        return list(found)

    async def clusters(self, group: str, resource: str) -> Sequence[Name]:
        """The clusters that have a CRD of a resource."""
        return list((await self._filled()).get(f"{resource}.{group or 'core'}", ()))

    def serving(self, served: Served, *, scope_of: ScopeOf, scopes: ScopeScan) -> ServedScan | None:
        """What tells a scan over all clusters which of them serve a resource: all that exist, or those with its CRD.

        None where no cluster has default objects of the resource. That is not for one cluster's definition to decide: the same name can
        be another kind there, or its CRD can terminate.

        Args:
            served: the resource, as some cluster serves it.
            scope_of: the scope of one cluster.
            scopes: all clusters that exist.
        """
        resource = served.resource
        if resource.default_objects is None and not self._tables.definitions.may_have_defaults(resource.group_resource):
            return None

        async def existing(first: Name | None, limit: int, revision: int) -> Sequence[tuple[ClusterScope, Served]]:
            return [(scope, served) for scope in await scopes(first, limit, revision)]

        async def defining(first: Name | None, limit: int, revision: int) -> Sequence[tuple[ClusterScope, Served]]:
            prefix_of = resource.keys.cluster_prefix
            defined = (await self._filled()).get(f"{resource.resource}.{resource.group or 'core'}", ())
            found: list[tuple[ClusterScope, Served]] = []
            time_slice = TimeSlice()
            # In the order of keys, which is not that of names.
            for cluster in sorted((name for name in defined if first is None or prefix_of(name) >= prefix_of(first)), key=prefix_of):
                await time_slice.yield_if_due()
                table = await self._tables.get(cluster)
                own = table.find(resource.group, resource.version, resource.resource)
                scope = await scope_of(cluster) if own is not None else None
                if own is not None and own.origin is not None and self._may_be_other(cluster, table, own.origin.revision, revision):
                    written = await definition_at(self._storage, own, revision)
                    own = own._replace(origin=own.origin._replace(revision=written)) if written else None
                if own is not None and scope is not None:
                    found.append((scope, own))
                    if len(found) == limit:
                        break
            return found

        return defining if served.definition_key else existing

    def _may_be_other(self, cluster: Name, table: ResourceTable, written: int, revision: int) -> bool:
        """Whether a definition that was written at one revision may have been another one at the revision that is read."""
        return written > revision or self._feed.revision < revision or self._tables.cached(cluster) is not table

    async def table(self) -> ResourceTable:
        """What is served in at least one cluster, for discovery over all of them.

        Of each kind, the definition of the first cluster that has it.
        """
        definitions: list[CompiledDefinition] = []
        time_slice = TimeSlice()
        for name, clusters in sorted((await self._filled()).items()):
            for cluster in list(clusters):
                await time_slice.yield_if_due()
                definition = (await self._tables.get(cluster)).definition(name)
                if definition is not None and definition.established:
                    definitions.append(definition)
                    break
        return self._tables.table_of(definitions)

    def clear(self) -> None:
        """Forget the index: changes may have been missed."""
        self._clusters = None
        self._gaps += 1

    async def _filled(self) -> dict[str, dict[Name, None]]:
        if self._clusters is not None:
            return self._clusters
        async with self._filling:
            while self._clusters is None:
                self._changed_meanwhile = []
                gaps = self._gaps
                found = await readable(self._storage.range(self._keys.prefix, keys_only=True))
                if gaps != self._gaps:
                    continue
                index: dict[str, dict[Name, None]] = {}
                for item in found.items:
                    key = self._keys.parse(item.key)
                    index.setdefault(key.name, {})[key.cluster] = None
                self._clusters = index
                for event in self._changed_meanwhile:
                    if event.mod_revision > found.revision:
                        self._apply(index, event)
                self._changed_meanwhile = []
        return self._clusters

    def _definition_changed(self, event: ObjectEvent) -> None:
        if self._clusters is None:
            if self._filling.locked():
                self._changed_meanwhile.append(event)
            return
        self._apply(self._clusters, event)

    @staticmethod
    def _apply(index: dict[str, dict[Name, None]], event: ObjectEvent) -> None:
        name, cluster = event.route.name, Name(event.route.cluster)
        if event.value is not None:
            index.setdefault(name, {})[cluster] = None
        elif (clusters := index.get(name)) is not None:
            clusters.pop(cluster, None)
            if not clusters:
                del index[name]
