"""`CRDSource`: what the CustomResourceDefinitions of a logical cluster define there.

The CRDs of a cluster are read when the cluster is first asked for. A change of one of them is read alone, and looks into no other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import CompiledCRD, CompiledCRDs, HeldNames, same_content
from kcp_py.registry.catalog.crdindex import CRDIndex
from kcp_py.registry.catalog.lonecrds import LoneCRDs
from kcp_py.registry.catalog.source import Dependency, EndedWatches, ResourceSource
from kcp_py.registry.clusterbudget import ClusterBudget, Part, Shared
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.default_events import origin_of_crd
from kcp_py.registry.resource import Served
from kcp_py.registry.store.access import Access
from kcp_py.storage.contract import Compare, KeyValue, Storage
from kcp_py.storage.keys import ResourceKeys, crd_name_of, custom_resource_keys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, ObjectEvent

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")


_READ_FIRST: Final = 16
_READ_TOGETHER: Final = 64
"""CRDs of one name that are read at once for requests over all clusters."""
_READ_BYTES: Final = 4 << 20
"""Fewer of them, if those that were read last are large."""


class CRDSource(ResourceSource):
    """Serves custom resources, each as the CRD of its own cluster defines it."""

    tells_single = True
    depends_elsewhere = False

    def __init__(self, access: Access, fanout: Fanout, compiled: CompiledCRDs, keys: ResourceKeys) -> None:
        """Follow CRDs.

        Args:
            access: the store, and where writes are observed.
            fanout: the changes of the store.
            compiled: compiles CRDs, once for all clusters with the same.
            keys: of CRDs.
        """
        self.compiled = compiled
        self._fanout = fanout
        self.keys = keys
        self._crds = _CRDCache(access.storage, compiled, keys, budget=access.budget)
        self._lone = LoneCRDs(access.storage, compiled)
        self.index = CRDIndex(access.storage, keys)
        access.observe(keys.prefix, self._crds)
        fanout.listen(keys.prefix, self._changed)

    async def resources(self, cluster: Name) -> Sequence[Served]:
        """`ResourceSource.resources`, in the order of the names of the CRDs and of their versions."""
        found = await self._crds.get(cluster)
        return () if found is None else [served for one in found.values() for served in one.served]

    async def resource_in(self, cluster: Name, resource: GroupResource) -> Sequence[Served]:
        """`ResourceSource.resource_in`: one key is read where the CRDs of the cluster are not known."""
        name = crd_name_of(resource)
        key = self.keys.object_key(cluster, "", name)
        known = self._crds.peek(cluster)
        if known is not None:
            return found.served if (found := known.get(key)) is not None else ()
        (item,), (compiled,), _ = await self._lone.read(name, [key])
        return _loaded(item, compiled.names, compiled).served if item is not None and compiled is not None else ()

    async def resource_in_each(self, clusters: Sequence[Name], resource: GroupResource) -> Sequence[Sequence[Served]]:
        """`ResourceSource.resource_in_each`: one key is read for each cluster whose CRDs are not known."""
        name = crd_name_of(resource)
        found: list[Sequence[Served]] = [()] * len(clusters)
        unknown: list[tuple[int, str]] = []
        for at, cluster in enumerate(clusters):
            key = self.keys.object_key(cluster, "", name)
            known = self._crds.peek(cluster)
            if known is None:
                unknown.append((at, key))
            elif (one := known.get(key)) is not None:
                found[at] = one.served
        together = _READ_FIRST
        while unknown:
            read, unknown = unknown[:together], unknown[together:]
            items, compiled, size = await self._lone.read(name, [key for _, key in read])
            for (at, _), item, form in zip(read, items, compiled, strict=True):
                if item is not None and form is not None:
                    found[at] = [Served(one, item.mod_revision, per_cluster=True, shared=form) for one in form.resources]
            together = max(1, min(_READ_TOGETHER, _READ_BYTES * len(read) // (size or 1)))
        return found

    async def held_names(self, cluster: Name) -> Sequence[HeldNames]:
        """The names that the CRDs of a cluster hold, of those that are not served as well.

        Raises:
            StorageError: the store cannot be read.
        """
        found = await self._crds.get(cluster)
        return () if found is None else [one.names for one in found.values() if one.names is not None]

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        """`ResourceSource.depends_on`: the CRDs of the cluster."""
        return (Dependency(self.keys.prefix, cluster),)

    async def group_resources(self) -> Collection[GroupResource]:
        """`ResourceSource.group_resources`."""
        return await self.index.resources()

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        """`ResourceSource.clusters`: those that have a CRD of the resource."""
        return [cluster async for _, cluster in self.index.clusters({resource})]

    def each_cluster(self, wanted: Collection[GroupResource]) -> AsyncGenerator[tuple[GroupResource, Name], None]:
        """`ResourceSource.each_cluster`."""
        return self.index.clusters(wanted)

    def ended_by(self, event: ObjectEvent) -> Iterable[EndedWatches]:
        """`ResourceSource.ended_by`: watches of the resource of a CRD that goes, or that serves something else from now on."""
        if event.previous is None:
            return ()
        cluster = Name(event.route.cluster)
        prefix = custom_resource_keys(self.keys.root, event.route.name, namespaced=True).prefix
        # Comparing two states takes longer than finding out that there is no watch.
        if not self._fanout.is_watched(prefix, cluster) or (event.value is not None and same_content(event.previous.value, event.value)):
            return ()
        return (EndedWatches(prefix, cluster),)

    def invalidate(self, cluster: Name) -> None:
        """`ResourceSource.invalidate`: the keys of all CRDs of the cluster are listed again, and those that changed are read."""
        self._crds.invalidate(cluster)

    def clear(self) -> None:
        """`ResourceSource.clear`."""
        self._crds.clear()
        self._lone.clear()
        self.index.clear()

    def _changed(self, event: ObjectEvent) -> None:
        self.index.apply(event)
        self._crds.changed(Name(event.route.cluster), event.route.key, gone=event.value is None)


class _LoadedCRD(NamedTuple):
    """A CRD as it was when it was last read."""

    revision: int
    names: HeldNames | None
    """None: it is malformed."""
    served: Sequence[Served]
    """Empty: it serves nothing."""
    compiled: CompiledCRD | None
    """None: it serves nothing."""


class _Progress:
    """The loaded CRDs of one cluster. The next load begins with them, and reads only CRDs that have changed."""

    __slots__ = ("begun", "changed", "listed", "loaded", "merged", "removed")

    def __init__(self) -> None:
        self.loaded: dict[str, _LoadedCRD] = {}
        """By key, in order. Replaced by each load; only deleted CRDs are removed from it."""
        self.begun = 0
        """Counts loads and changes, to tell which came first."""
        self.merged = 0
        """The beginning of the latest load that was merged; loads that began before it are not merged."""
        self.listed = False
        """Whether all keys are known but for those that have changed."""
        self.changed: dict[str, int] = {}
        """Keys whose CRDs have to be read again, and since when."""
        self.removed: dict[str, int] = {}
        """Keys whose CRDs were gone."""

    def begin(self) -> int:
        self.begun += 1
        return self.begun

    def note(self, keys: Iterable[str]) -> None:
        """The CRDs of these keys have to be read again; without any, all keys have to be listed."""
        now = self.begin()
        noted = dict.fromkeys(keys, now)
        self.changed.update(noted)
        if not noted:
            self.listed = False
            # A list that is being read already may be too old.
            self.merged = now

    def forget(self, key: str) -> None:
        """Keep nothing of a CRD that is gone, not even for a load that is under way."""
        self.removed[key] = self.begin()
        self.loaded.pop(key, None)

    def merge(self, begun: int, loaded: dict[str, _LoadedCRD]) -> None:
        """Keep what a load has found, unless one that began later was faster."""
        if begun < self.merged:
            return
        self.merged = begun
        self.listed = True
        self.loaded = dict(loaded)
        self.changed = {key: since for key, since in self.changed.items() if since > begun}
        removed, self.removed = self.removed, {}
        for key, since in removed.items():
            if since > begun:
                self.forget(key)


_PAGE: Final = 32
"""CRDs that are read at once: some are large."""
_CLUSTER_BYTES: Final = 600
_CRD_BYTES: Final = 300
"""Of a CRD in a cluster, without its compiled form and the resources in the table of the cluster."""
_NAMES_BYTES: Final = 900
"""Of the names of a CRD where they are not those of its compiled form."""


class _CRDCache(ClusterCache[Mapping[str, _LoadedCRD] | None]):
    """The CRDs of each cluster by key, in order, loaded on demand; None, which is not kept, for a cluster without any."""

    def __init__(self, storage: Storage, compiled: CompiledCRDs, keys: ResourceKeys, *, budget: ClusterBudget) -> None:
        # The values refer to what the progress keeps, and are counted with it.
        super().__init__(self._load, budget=budget, name="definitions", weigh=lambda _cluster, _loaded: 0)
        self._storage = storage
        self._compiled = compiled
        self._keys = keys
        self._progress: dict[Name, _Progress] = {}
        self._kept: Part[Name] = budget.part("definitions", self._forget)

    def changed(self, cluster: Name, key: str, *, gone: bool) -> None:
        """The feed has brought a change of a CRD."""
        self._note(cluster, (key,))
        if gone and (progress := self._progress.get(cluster)) is not None:
            progress.forget(key)
            self._keep(cluster, progress)

    def _keep(self, cluster: Name, progress: _Progress) -> None:
        """Count the progress of a cluster, as it is now, or keep it no longer where nothing is loaded."""
        if self._progress.get(cluster) is not progress:
            return
        if not progress.loaded:
            del self._progress[cluster]
            self._kept.release(cluster)
            return
        size = _CLUSTER_BYTES
        shared: dict[Shared, None] = {}
        for one in progress.loaded.values():
            size += _CRD_BYTES
            if one.compiled is not None:
                shared[one.compiled.cost] = None
            if one.names is not None and (one.compiled is None or one.compiled.names is not one.names):
                size += _NAMES_BYTES
        self._kept.hold(cluster, size, shared)

    def _forget(self, cluster: Name) -> object:
        """Keep nothing of a cluster. Returns its CRDs, to be freed one by one."""
        progress = self._progress.pop(cluster, None)
        return None if progress is None else list(progress.loaded.values())

    def clear(self) -> None:
        super().clear()
        self._progress.clear()
        self._kept.clear()

    async def _load(self, cluster: Name) -> Mapping[str, _LoadedCRD] | None:
        progress = self._progress.get(cluster)
        if progress is None:
            progress = self._progress[cluster] = _Progress()
            self._kept.hold(cluster, _CLUSTER_BYTES)
        begun = progress.begin()
        loaded = await self._read_changed(progress) if progress.listed else await self._read_all(cluster, progress.loaded)
        if not self.is_writing(cluster):
            # While a write is under way, a read may show the state before it.
            progress.merge(begun, loaded)
        self._keep(cluster, progress)
        if loaded and self._progress.get(cluster) is not progress:
            # The cluster was evicted meanwhile. Its CRDs would not be counted.
            self._loading.pop(cluster, None)
        return loaded or None

    async def _read_changed(self, progress: _Progress) -> dict[str, _LoadedCRD]:
        """The CRDs of a cluster by key. Only those that have changed are read."""
        loaded = dict(progress.loaded)
        added = False
        time_slice = TimeSlice()
        for key in sorted(progress.changed):
            item = await self._storage.get(key)
            one = loaded.get(key)
            if item is None:
                loaded.pop(key, None)
                continue
            if one is not None and one.revision == item.mod_revision:
                continue
            added = added or one is None
            loaded[key] = await self._read(item)
            await time_slice.yield_if_due()
        return dict(sorted(loaded.items())) if added else loaded

    async def _read_all(self, cluster: Name, known: Mapping[str, _LoadedCRD]) -> dict[str, _LoadedCRD]:
        """The CRDs of a cluster by key. Only those that are not known at their present revision are read."""
        prefix = self._keys.cluster_prefix(cluster)
        loaded: dict[str, _LoadedCRD] = {}
        time_slice = TimeSlice()
        if known:
            known = dict(known)
            for item in (await self._storage.range(prefix, keys_only=True)).items:
                one = known.get(item.key)
                if one is None or one.revision != item.mod_revision:
                    current = await self._storage.get(item.key)
                    if current is None:
                        continue
                    one = await self._read(current)
                    await time_slice.yield_if_due()
                loaded[item.key] = one
            return loaded
        async for page in read_pages(self._storage, prefix, limit=_PAGE):
            for item in page.items:
                loaded[item.key] = await self._read(item)
                await time_slice.yield_if_due()
        return loaded

    async def _read(self, item: KeyValue) -> _LoadedCRD:
        """A CRD as it is stored."""
        names, compiled, error = await self._compiled.load(item.value)
        if error is not None:
            # Another server, or another version of this one, has written it: all other CRDs of the cluster are served.
            key = self._keys.parse(item.key)
            _log.warning("definition_not_served", cluster=key.cluster, name=key.name, error=repr(error))
        if compiled is None:
            return _LoadedCRD(item.mod_revision, names, (), None)
        return _loaded(item, compiled.names if names == compiled.names else names, compiled)

    def _note(self, cluster: Name, keys: Sequence[str]) -> None:
        super()._note(cluster, keys)
        if (progress := self._progress.get(cluster)) is not None:
            own = [key for key in keys if key.startswith(self._keys.prefix)]
            if own or not keys:
                progress.note(own)


def _loaded(item: KeyValue, names: HeldNames | None, compiled: CompiledCRD) -> _LoadedCRD:
    """A stored CRD whose compiled form is known."""
    guards = (Compare(item.key, mod_revision=item.mod_revision),)
    life = (Compare(item.key, create_revision=item.create_revision),)
    origin = origin_of_crd(item) if any(resource.default_objects for resource in compiled.resources) else None
    served = [
        Served(resource, item.mod_revision, guards, life, origin, per_cluster=True, shared=compiled) for resource in compiled.resources
    ]
    return _LoadedCRD(item.mod_revision, names, served, compiled)
