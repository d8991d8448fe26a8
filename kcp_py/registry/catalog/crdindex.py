"""`CRDIndex`: which clusters have a CustomResourceDefinition of a resource.

The index holds, for every name of a CRD, how many clusters have such a CRD, and the names of some of them. Its size depends on the number
of different names and not on that of clusters: a million clusters with the same ten CRDs cost nothing. All clusters of a CRD that many have
are found by reading the keys.

It is read from the store when a request over all clusters first needs it, and follows the feed from then on: a server without such requests
does not pay for it. Reading the keys of ten million CRDs takes half a minute. So the index is kept in a record (`crdrecord`), and the next
process begins with that and with the changes since.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.knownclusters import MOST_NAMED, KnownClusters, known_of, record_of
from kcp_py.registry.records import Records
from kcp_py.storage.contract import CompactedError, Storage, readable
from kcp_py.storage.keys import ResourceKeys, crd_name_of
from kcp_py.watchcache import ObjectEvent

RECORD: Final = "definition-index"
_PAGE: Final = 1_000
"""Keys that are read at once."""
_FIRST_KEYS: Final = 50
_FIRST_PAGES: Final = 4
"""Pages that are looked through for a resource before the index is read: in most stores the first clusters have it. The first page has
`_FIRST_KEYS`."""
_REMEMBERED: Final = 1_000
"""Resources of which one cluster is remembered before the index is read."""


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
        self._records = Records(storage, keys.root)
        self._known: dict[str, KnownClusters] | None = None
        self._filling: asyncio.Future[None] | None = None
        self._journal: list[_Difference] = []
        """Changes while the index is read."""
        self._ends: list[str] = []
        """The last key of each page that the index was read from, until the feed has passed the revision of the last page."""
        self._revisions: list[int] = []
        """Of these pages."""
        self._gaps = 0
        self._restored_at = 0
        """The revision of the record that the index was filled from."""
        self._found: LRU[str, Name] = LRU(_REMEMBERED)
        """A cluster that has a CRD of the name, while the index is not read."""

    async def restore(self) -> int:
        """Fill the index from the record, if there is one and the history since is known. Nothing else is read.

        Returns:
            The revision of the record; 0 where it was not used.

        Raises:
            StorageError: the store cannot be read.
        """
        if self._known is None and self._filling is None:
            self._begin(self._fill_from_record())
            assert self._filling is not None
            await asyncio.shield(self._filling)
        return self._restored_at

    async def save(self, revision: int) -> int:
        """Write the record, unless another process has written one of this revision or a later one.

        Args:
            revision: of the feed: the index has all changes up to this one.

        Returns:
            The revision up to which a record contains the changes; 0 where none was written.

        Raises:
            StorageError: the store cannot be read or written.
        """
        if self._known is None or (self._revisions and revision < self._revisions[-1]):
            return 0
        value = record_of(self._known)
        if value is None:
            return revision
        found = await self._records.load(RECORD)
        if found is not None and found["revision"] >= revision and known_of(found) is not None:
            return int(found["revision"])
        written = await self._records.save(RECORD, {"revision": revision, **value})
        return written if written == revision + 1 else min(written, revision)

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

    def _count(self, index: dict[str, KnownClusters], change: _Difference) -> None:
        """Count a change, unless the page of its key was read after it."""
        if self._revisions and change.revision <= self._revisions[min(bisect_left(self._ends, change.key), len(self._ends) - 1)]:
            return
        known = index.setdefault(change.name, KnownClusters())
        if change.created:
            known.add(change.cluster)
            return
        known.remove(change.cluster)
        if known.count <= 0:
            del index[change.name]

    async def _filled(self) -> Mapping[str, KnownClusters]:
        """The index, read once for all callers that wait. It is read to the end when they give up: the next ones find it."""
        while self._known is None:
            # One that has ended is forgotten an iteration later, and to wait for it would not let that iteration begin.
            if self._filling is None or self._filling.done():
                self._begin(self._fill())
            assert self._filling is not None
            await asyncio.shield(self._filling)
        return self._known

    async def _fill(self) -> None:
        await self._fill_from_record()
        while self._known is None:
            if (index := await self._read()) is not None:
                self._take(index)

    async def _fill_from_record(self) -> None:
        if (index := await self._restored()) is not None:
            self._take(index)

    def _take(self, index: dict[str, KnownClusters]) -> None:
        self._known = index
        for change in self._journal:
            self._count(index, change)
        self._journal = []

    def _begin(self, filling: Coroutine[Any, Any, None]) -> None:
        self._filling = asyncio.ensure_future(filling)
        self._filling.add_done_callback(self._ended)

    def _ended(self, filling: asyncio.Future[None]) -> None:
        if self._filling is filling:
            self._filling = None
        if not filling.cancelled():
            filling.exception()  # those that wait get it; there may be none left

    async def _restored(self) -> dict[str, KnownClusters] | None:
        """The index by the record and the history since; None where there is no record, or not all of the history."""
        gaps = self._gaps
        value = await self._records.load(RECORD)
        index = known_of(value) if value is not None else None
        until = await self._storage.revision()
        if value is None or index is None or value["revision"] > until:
            return None
        self._journal, self._ends, self._revisions = [], [], []
        at = value["revision"]
        try:
            async with aclosing(self._storage.watch(self._keys.prefix, start_revision=at + 1)) as batches:
                while at < until:
                    batch = await anext(batches)
                    for event in batch.events:
                        if (event.previous is None) is (event.value is not None):
                            place = self._keys.parse(event.key)
                            created = event.value is not None
                            self._count(index, _Difference(event.key, place.name, place.cluster, event.mod_revision, created))
                    at = batch.revision
        except CompactedError:
            return None
        # Changes up to this revision come by the feed, too.
        self._ends, self._revisions = ["\U0010ffff"], [at]
        if gaps != self._gaps:
            return None
        self._restored_at = int(value["revision"])
        return index

    async def _read(self) -> dict[str, KnownClusters] | None:
        """The index by the keys of the store. Each page is the latest state. None where changes were missed meanwhile."""
        gaps = self._gaps
        self._journal, self._ends, self._revisions = [], [], []
        index: dict[str, KnownClusters] = {}
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
                    known = index[name] = KnownClusters()
                if known.count < MOST_NAMED:
                    known.add(self._keys.parse(item.key).cluster)
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


def _resource_of(name: str) -> GroupResource:
    """The resource of a CRD by its name, `<plural>.<group>` or `<plural>.core`."""
    plural, _, group = name.partition(".")
    return GroupResource("" if group == "core" else group, plural)
