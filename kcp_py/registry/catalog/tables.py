"""`ResourceTables`: which resources each logical cluster serves, as the sum of all sources.

A table is worked out when its cluster is first asked for, kept while it is used, and dropped when something changes that one of the
sources depends on. Tables of all clusters count against the budget of all caches; compiled schemas and documents are shared by content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.registry.catalog.attachments import Attachments
from kcp_py.registry.catalog.source import ResourceSource
from kcp_py.registry.catalog.table import ResourceTable, ResourceUnion
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.resource import ResourceKey, Served, ServedResource
from kcp_py.registry.store.access import Access
from kcp_py.watchcache import Fanout, ObjectEvent

_MOST_DEPENDENT: Final = 2_000
"""Of so many clusters it is known which others their tables depend on. It has to be known while a table is loaded, so it is bounded by
number and not by the budget, which counts tables that are loaded. Only sources of programs have such clusters."""
_TABLE_BYTES: Final = 400
_RESOURCE_BYTES: Final = 660


class ResourceTables(ClusterCache[ResourceTable]):
    """The tables of all clusters, worked out on demand."""

    def __init__(
        self,
        access: Access,
        fanout: Fanout,
        sources: Iterable[ResourceSource],
        *,
        attachments: Attachments | None = None,
    ) -> None:
        """Follow everything that the sources depend on.

        Args:
            access: where writes are observed.
            fanout: the changes of the store.
            sources: in the order of precedence, connected.
            attachments: further subresources of what single clusters serve.
        """
        super().__init__(self._load, budget=access.budget, name="tables", weigh=_weigh, shared=ResourceTable.shared)
        self._attachments = attachments or Attachments()
        self._access = access
        self._fanout = fanout
        everywhere: dict[ResourceKey, Served] = {}
        self.sources: list[ResourceSource] = []
        """Those that serve something in single clusters, in the order of precedence."""
        for source in sources:
            if not source.everywhere:
                self.sources.append(source)
            for served in source.everywhere:
                everywhere.setdefault(served.resource.key, served)
        self._tells_single = all(source.tells_single for source in self.sources)
        self._depends_elsewhere = any(source.depends_elsewhere for source in self.sources)
        self.everywhere: Final[Mapping[ResourceKey, Served]] = MappingProxyType(everywhere)
        """What every cluster serves."""
        self.builtin_resources: Final[Mapping[GroupResource, ServedResource]] = {
            resource.group_resource: resource for resource in reversed([*self.builtins])
        }
        """What every cluster serves, by its name. Each resource is in its first version."""
        self._builtin_kinds: Final = {resource.group_version_kind: resource for resource in reversed([*self.builtins])}
        self.builtin_table: Final = ResourceTable(self.everywhere)
        """Of clusters that serve what all clusters do; the sources serve nothing of their own in them."""
        self._followed: dict[str, list[ResourceSource]] = {}
        """Prefix of a resource -> the sources that depend on it."""
        self._foreign: OrderedDict[Name, frozenset[Name]] = OrderedDict()
        """Cluster -> the other clusters that its table depends on."""
        self._dependents: dict[Name, set[Name]] = {}
        """The reverse of `_foreign`."""
        self._listeners: dict[object, Callable[[Name], None]] = {}
        # Sources depend on the same resources in all clusters, or nearly: changes are followed before the first table is worked out.
        self._depend(ROOT)
        fanout.listen_gaps(self.clear)

    @property
    def builtins(self) -> Iterable[ServedResource]:
        """What every cluster serves."""
        return (served.resource for served in self.everywhere.values())

    @property
    def declared(self) -> Iterable[ServedResource]:
        """What sources may serve in single clusters, as far as they know it when the server starts."""
        return (resource for source in self.sources for resource in source.declared)

    def builtin(self, group: str, version: str, resource: str) -> Served | None:
        """A resource that every cluster serves."""
        return self.everywhere.get((group, version, resource))

    async def find_resource(self, cluster: Name, resource: GroupResource) -> ServedResource | None:
        """A resource in one of its versions: the first of a built-in one, that of the storage of another one if that is served.

        Raises:
            StorageError: the store cannot be read.
        """
        if (builtin := self.builtin_resources.get(resource)) is not None:
            return builtin
        found = (await self.get(cluster)).find_own(resource)
        return found.resource if found is not None else None

    async def find_kind(self, cluster: Name, kind: GroupVersionKind) -> ServedResource | None:
        """The resource whose objects are of a kind.

        Raises:
            StorageError: the store cannot be read.
        """
        if (builtin := self._builtin_kinds.get(kind)) is not None:
            return builtin
        found = (await self.get(cluster)).find_own_kind(kind)
        return found.resource if found is not None else None

    def union_of(self, resources: Iterable[ServedResource]) -> ResourceUnion:
        """What every cluster serves and more, for documents."""
        return ResourceUnion(self.everywhere, resources)

    async def served_in(self, cluster: Name, served: Served) -> Served | None:
        """A resource that was found in one cluster, or for all of them, as it is served in another one.

        None where that cluster does not serve the version, or stores its objects somewhere else: another source serves it there.

        Raises:
            StorageError: the store cannot be read.
        """
        if not served.per_cluster:
            return served
        return (self.cached(cluster) or await self.get(cluster)).find_same(served)

    async def glance_in(self, cluster: Name, served: Served) -> Served | None:
        """`served_in` for requests that ask very many clusters once. No table is worked out, and none of another request is evicted.

        Raises:
            StorageError: the store cannot be read.
        """
        if not served.per_cluster:
            return served
        if not self._tells_single:
            return await self.served_in(cluster, served)
        key = served.resource.key
        own = next((one for one in await self.versions_in(cluster, served.resource.group_resource) if one.resource.key == key), None)
        return own if own is not None and own.resource.keys.prefix == served.resource.keys.prefix else None

    async def glance_in_each(self, clusters: Sequence[Name], served: Served) -> Sequence[Served | None]:
        """`glance_in` for some clusters, in their order, to read stored objects: guards, life and origin may be missing.

        Raises:
            StorageError: the store cannot be read.
        """
        if not served.per_cluster:
            return [served] * len(clusters)
        if not self._tells_single or self._depends_elsewhere:
            return [await self.glance_in(cluster, served) for cluster in clusters]
        found: list[Served | None] = [None] * len(clusters)
        left: list[int] = []
        for at, cluster in enumerate(clusters):
            table = self.peek(cluster)
            if table is None:
                left.append(at)
            else:
                found[at] = table.find_same(served)
        key, prefix = served.resource.key, served.resource.keys.prefix
        for source in self.sources if served.resource.group_resource not in self.builtin_resources else ():
            answers = await source.resource_in_each([clusters[at] for at in left], served.resource.group_resource)
            unserved: list[int] = []
            for at, versions in zip(left, answers, strict=True):
                if not versions:
                    unserved.append(at)
                    continue
                for one in versions:
                    if one.resource.key == key and one.resource.keys.prefix == prefix:
                        found[at] = self._attached(clusters[at], one)
            left = unserved
        return found

    async def versions_in(self, cluster: Name, resource: GroupResource) -> Sequence[Served]:
        """A resource that not every cluster serves, in all versions in which a cluster serves it. As `glance_in`, it works out no table.

        Raises:
            StorageError: the store cannot be read.
        """
        table = self.peek(cluster)
        if table is None and self._tells_single and not self._depend(cluster):
            found = await self._in_cluster(cluster, resource)
            if not self._depend(cluster):
                return found
        if table is None:
            # Changes in other clusters have to be followed from before the table is worked out.
            table = await self.get(cluster)
        return table.find_all(resource)

    def listen(self, listener: Callable[[Name], None]) -> Callable[[], None]:
        """Call a function with each cluster whose table may be another one from now on, once the feed has brought the change.

        The table has to be known or asked for after the call. The function must not block and must not raise.

        Returns:
            Ends the calls.
        """
        token = object()
        self._listeners[token] = listener

        def remove() -> None:
            self._listeners.pop(token, None)

        return remove

    def invalidate(self, cluster: Name) -> None:
        """Forget a cluster: a write found that its table is stale, or the cluster is gone."""
        for source in self.sources:
            source.invalidate(cluster)
        super().invalidate(cluster)

    def clear(self) -> None:
        """Forget all clusters: changes may have been missed."""
        super().clear()
        for source in self.sources:
            source.clear()

    def is_writing(self, cluster: Name) -> bool:
        """Whether something is being written in the cluster, or in another one that its table depends on."""
        return super().is_writing(cluster) or any(other in self._writing for other in self._foreign.get(cluster, ()))

    async def _load(self, cluster: Name) -> ResourceTable:
        others = self._depend(cluster)
        while True:
            found = [await source.resources(cluster) for source in self.sources]
            now = self._depend(cluster)
            if now <= others:
                break
            # Changes of these clusters were not followed while they were read: read again.
            others = now
        served: dict[ResourceKey, Served] = {one.resource.key: self._attached(cluster, one) for one in self._sum(found)}
        return ResourceTable(self.everywhere, served) if served else self.builtin_table

    async def _in_cluster(self, cluster: Name, resource: GroupResource) -> Sequence[Served]:
        """What `_load` finds of one resource: what the first source says that serves it."""
        if resource in self.builtin_resources:
            return ()
        for source in self.sources:
            if found := await source.resource_in(cluster, resource):
                return [self._attached(cluster, one) for one in found]
        return ()

    def _attached(self, cluster: Name, served: Served) -> Served:
        """A resource of a source as a cluster serves it."""
        own = served if served.per_cluster else served._replace(per_cluster=True)
        return self._attachments.in_cluster(cluster, own) if self._attachments else own

    def _sum(self, found: Sequence[Sequence[Served]]) -> Iterator[Served]:
        """What the sources serve in a cluster: of each resource, what the first of them says."""
        taken: Collection[GroupResource] = self.builtin_resources
        for at, resources in enumerate(found, start=1):
            for served in resources:
                if served.resource.group_resource not in taken:
                    yield served
            if at < len(found):
                taken = {*taken, *(served.resource.group_resource for served in resources)}

    def _note(self, cluster: Name, keys: Sequence[str]) -> None:
        super()._note(cluster, keys)
        for dependent in self._dependents.get(cluster, ()):
            super()._note(dependent, ())

    def _changed(self, event: ObjectEvent) -> None:
        """Something changed that sources depend on: drop the table, and end watches, so that clients look again."""
        cluster = Name(event.route.cluster)
        self._note(cluster, (event.route.key,))
        for listener in self._listeners.values():
            for changed in (cluster, *self._dependents.get(cluster, ())):
                listener(changed)
        for source in self._followed[event.route.prefix]:
            for watches in source.ended_by(event):
                self._fanout.end_watches(prefix=watches.prefix, cluster=watches.cluster)

    def _depend(self, cluster: Name) -> frozenset[Name]:
        """Follow what the table of a cluster depends on; the other clusters among it."""
        others = set()
        for source in self.sources:
            for dependency in source.depends_on(cluster):
                self._follow(dependency.prefix, source)
                others.add(dependency.cluster)
        others.discard(cluster)
        if others or cluster in self._foreign:
            self._register(cluster, frozenset(others))
        return frozenset(others)

    def _follow(self, prefix: str, source: ResourceSource) -> None:
        followers = self._followed.get(prefix)
        if followers is None:
            followers = self._followed[prefix] = []
            self._access.observe(prefix, self)
            self._fanout.listen(prefix, self._changed)
        if source not in followers:
            followers.append(source)

    def _register(self, cluster: Name, others: frozenset[Name]) -> None:
        """Remember which other clusters a table depends on. Bounded: when the dependencies of a table are dropped, so is the table."""
        self._unregister(cluster)
        if not others:
            return
        self._foreign[cluster] = others
        for other in others:
            self._dependents.setdefault(other, set()).add(cluster)
        # While there are listeners, the dependencies of all clusters that they ask for have to be known.
        while len(self._foreign) > _MOST_DEPENDENT and not self._listeners:
            oldest = next(iter(self._foreign))
            self._unregister(oldest)
            super()._note(oldest, ())

    def _unregister(self, cluster: Name) -> None:
        for other in self._foreign.pop(cluster, ()):
            dependents = self._dependents[other]
            dependents.discard(cluster)
            if not dependents:
                del self._dependents[other]


def _weigh(cluster: Name, table: ResourceTable) -> int:
    """The memory of a table with the indexes that it makes later. An empty one is shared by all clusters."""
    del cluster
    return _TABLE_BYTES + _RESOURCE_BYTES * len(table.served) if table.served else 0
