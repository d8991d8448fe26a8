"""`CRDIndex`: which clusters have a CustomResourceDefinition of a resource.

The index holds, for every name of a CRD, how many clusters have such a CRD, and the names of some of them. Its size depends on the number
of different names and not on that of clusters: a million clusters with the same ten CRDs cost nothing. All clusters of a CRD that many have
are found by reading the keys.

It is read from the store when a request over all clusters first needs it, and follows the feed from then on: a server without such requests
does not pay for it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import Final, NamedTuple

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Storage, readable
from kcp_py.storage.keys import ResourceKeys, crd_name_of
from kcp_py.watchcache import ObjectEvent

_PAGE: Final = 1_000
"""Keys that are read at once."""
_FIRST_KEYS: Final = 50
_FIRST_PAGES: Final = 4
"""Pages that are looked through for a resource before the index is read: in most stores the first clusters have it. The first page has
`_FIRST_KEYS`."""
_REMEMBERED: Final = 1_000
"""Resources of which one cluster is remembered before the index is read."""
_NAMED: Final = 100
"""Clusters of a CRD that the index names."""


class _Known:
    """The CRDs of one name."""

    __slots__ = ("clusters", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many clusters have one."""
        self.clusters: dict[Name, None] = {}
        """Some of them; all, if they are so few as there is room for."""

    @property
    def complete(self) -> bool:
        """Whether `clusters` has all of them."""
        return self.count == len(self.clusters)


class _Difference(NamedTuple):
    """The creation or deletion of a CRD."""

    key: str
    name: str
    cluster: Name
    revision: int
    created: bool


class CRDIndex:
    """Name of a CRD -> the clusters that have it."""

    def __init__(self, storage: Storage, keys: ResourceKeys) -> None:
        """Begin empty. `keys` are those of CRDs."""
        self._storage = storage
        self._keys = keys
        self._known: dict[str, _Known] | None = None
        self._filling: asyncio.Future[None] | None = None
        self._journal: list[_Difference] = []
        """Changes while the index is read."""
        self._ends: list[str] = []
        """The last key of each page that the index was read from, until the feed has passed the revision of the last page."""
        self._revisions: list[int] = []
        """Of these pages."""
        self._gaps = 0
        self._found: LRU[str, Name] = LRU(_REMEMBERED)
        """A cluster that has a CRD of the name, while the index is not read."""

    async def resources(self) -> Collection[GroupResource]:
        """The resources of which at least one cluster has a CRD."""
        return [_resource_of(name) for name in await self._filled()]

    async def clusters(self, wanted: Collection[GroupResource]) -> AsyncGenerator[tuple[GroupResource, Name], None]:
        """`ResourceSource.each_cluster`: the clusters that have a CRD of one of these resources, each once for each of them."""
        names = {crd_name_of(resource): resource for resource in wanted}
        seen: dict[str, set[Name]] = {name: set() for name in names}
        if self._known is None:
            async with aclosing(self._likely(names)) as found:
                async for name, cluster in found:
                    if names[name] in wanted and cluster not in seen[name]:
                        seen[name].add(cluster)
                        self._found.setdefault(name, cluster)
                        yield names[name], cluster
        index = await self._filled()
        for name, resource in [*names.items()]:
            known = index.get(name)
            if known is None or known.complete:
                del names[name]
            for cluster in [*known.clusters] if known is not None else ():
                if resource not in wanted:
                    break
                if cluster not in seen[name]:
                    seen[name].add(cluster)
                    yield resource, cluster
        if not any(resource in wanted for resource in names.values()):
            return
        async with aclosing(self._stored(names)) as found:
            async for name, cluster in found:
                if names[name] in wanted and cluster not in seen[name]:
                    yield names[name], cluster
                    if not any(resource in wanted for resource in names.values()):
                        return

    async def _likely(self, names: Collection[str]) -> AsyncGenerator[tuple[str, Name], None]:
        """Clusters that are found without the index."""
        for name in names:
            if (remembered := self._found.get(name)) is not None:
                yield name, remembered
        async with aclosing(self._stored(names, most=_FIRST_PAGES)) as found:
            async for pair in found:
                yield pair

    async def _stored(self, names: Collection[str], *, most: int = 0) -> AsyncGenerator[tuple[str, Name], None]:
        """The clusters that have CRDs of some names, in the order of keys, as far as they are in so many pages (0: in all)."""
        after = len(self._keys.prefix)
        pages, limit, start = 0, _FIRST_KEYS if most else _PAGE, ""
        time_slice = TimeSlice()
        while True:
            page = await readable(self._storage.range(self._keys.prefix, start=start, limit=limit, keys_only=True))
            for item in page.items:
                name = item.key[item.key.index("/", after) + 1 :]
                if name in names:
                    yield name, self._keys.parse(item.key).cluster
            pages += 1
            if not page.more or not page.items or pages == most:
                return
            start, limit = page.items[-1].key + "\x00", _PAGE
            await time_slice.yield_if_due()

    def clear(self) -> None:
        """Forget the index: changes may have been missed."""
        self._known = None
        self._found.clear()
        self._gaps += 1

    def apply(self, event: ObjectEvent) -> None:
        """Follow a change of a CRD."""
        route = event.route
        if event.value is None and self._found.peek(route.name) == route.cluster:
            self._found.pop(route.name)
        created = event.previous is None
        if created is (event.value is None) or (self._known is None and self._filling is None):
            return
        difference = _Difference(route.key, route.name, Name(route.cluster), event.mod_revision, created)
        if self._known is None:
            self._journal.append(difference)
        else:
            self._count(self._known, difference)
            if self._revisions and event.mod_revision > self._revisions[-1]:
                self._ends, self._revisions = [], []

    def _count(self, index: dict[str, _Known], change: _Difference) -> None:
        """Count a change, unless the page of its key was read after it."""
        if self._revisions and change.revision <= self._revisions[min(bisect_left(self._ends, change.key), len(self._ends) - 1)]:
            return
        known = index.setdefault(change.name, _Known())
        if change.created:
            _add(known, change.cluster)
            return
        known.count -= 1
        known.clusters.pop(change.cluster, None)
        if known.count <= 0:
            del index[change.name]

    async def _filled(self) -> Mapping[str, _Known]:
        """The index, read once for all callers that wait. It is read to the end when they give up: the next ones find it."""
        while self._known is None:
            if self._filling is None:
                self._filling = asyncio.ensure_future(self._fill())
                self._filling.add_done_callback(self._ended)
            await asyncio.shield(self._filling)
        return self._known

    async def _fill(self) -> None:
        while (index := await self._read()) is None:
            pass
        self._known = index
        for change in self._journal:
            self._count(index, change)
        self._journal = []

    def _ended(self, filling: asyncio.Future[None]) -> None:
        self._filling = None
        if not filling.cancelled():
            filling.exception()  # those that wait get it; there may be none left

    async def _read(self) -> dict[str, _Known] | None:
        """The index by the keys of the store. Each page is the latest state. None where changes were missed meanwhile."""
        gaps = self._gaps
        self._journal, self._ends, self._revisions = [], [], []
        index: dict[str, _Known] = {}
        after = len(self._keys.prefix)
        start = ""
        time_slice = TimeSlice()
        while True:
            page = await readable(self._storage.range(self._keys.prefix, start=start, limit=_PAGE, keys_only=True))
            if gaps != self._gaps:
                return None
            for item in page.items:
                name = item.key[item.key.index("/", after) + 1 :]
                known = index.get(name)
                if known is None:
                    known = index[name] = _Known()
                if known.count < _NAMED:
                    _add(known, self._keys.parse(item.key).cluster)
                else:
                    known.count += 1
            if page.items:
                self._ends.append(page.items[-1].key)
                self._revisions.append(page.revision)
            if not page.more or not page.items:
                # Keys behind the last one were looked for, too.
                self._ends.append("\U0010ffff")
                self._revisions.append(page.revision)
                return index
            start = page.items[-1].key + "\x00"
            await time_slice.yield_if_due()


def _add(known: _Known, cluster: Name) -> None:
    if known.complete and known.count < _NAMED:
        known.clusters[cluster] = None
    known.count += 1


def _resource_of(name: str) -> GroupResource:
    """The resource of a CRD by its name, `<plural>.<group>` or `<plural>.core`."""
    plural, _, group = name.partition(".")
    return GroupResource("" if group == "core" else group, plural)
