"""`ConfiguredObjects`: the objects by which each logical cluster configures a plugin, right from the answer to each write on.

A store shows a commit to readers before its writer gets the answer, and the feed delivers it later still. So the objects that are being
written, or were written since a cluster's were last brought up to date, are read again before the next decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.store import Access
from kcp_py.registry.store.pending import PendingWrites
from kcp_py.storage.contract import DamagedError
from kcp_py.storage.keys import ResourceKeys, resource_keys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, ObjectEvent

_CLUSTERS: Final = 2000
"""So many clusters are kept, those that were used last. Loading one again costs a read for each resource."""
_PAGE: Final = 500

Objects = Mapping[GroupResource, Mapping[str, Any]]
"""The parsed objects of a cluster by resource and name."""

T = TypeVar("T")


class _Entry(Generic[T]):
    """The objects of a cluster and what may have changed since they were read."""

    __slots__ = ("built", "changed", "loaded", "lock", "objects")

    def __init__(self) -> None:
        self.objects: dict[GroupResource, dict[str, Any]] = {}
        self.built: T | None = None
        """None after a change."""
        self.loaded = False
        self.changed: dict[str, object] = {}
        """Keys of objects to read again, each with a mark of its latest change."""
        self.lock = asyncio.Lock()


class ConfiguredObjects(Generic[T]):
    """A `WriteObserver` of cluster-scoped resources, which gives a value that is built from the objects of a cluster.

    The number of clusters that are kept is bounded. Changes by other servers arrive with the feed.
    """

    def __init__(
        self,
        access: Access,
        fanout: Fanout,
        root: str,
        *,
        resources: Sequence[GroupResource],
        parse: Callable[[GroupResource, Mapping[str, Any]], Any],
        build: Callable[[Objects], T],
    ) -> None:
        """Begin to follow writes.

        Args:
            access: the store.
            fanout: delivers changes by other servers.
            root: the prefix of the store's keys.
            resources: cluster-scoped and built-in.
            parse: makes of a stored object what is kept of it; None leaves it out. It is called once for each change of an object.
            build: makes the value of all objects of a cluster. It is called when the value is first needed after a change.
        """
        self._access = access
        self._parse = parse
        self._build = build
        self._entries: LRU[Name, _Entry[T]] = LRU(_CLUSTERS)
        self._writing = PendingWrites()
        self._resources: dict[GroupResource, ResourceKeys] = {
            resource: resource_keys(root, resource.group, resource.resource, namespaced=False) for resource in resources
        }
        self._prefixes = tuple(keys.prefix for keys in self._resources.values())
        for keys in self._resources.values():
            access.observe(keys.prefix, self)
            fanout.listen(keys.prefix, partial(self._event, keys))
        fanout.listen_gaps(self._entries.clear)

    def known(self, cluster: Name) -> T | None:
        """The value of a cluster; None where objects have to be read for it."""
        entry = self._entries.get(cluster)
        if entry is None or not entry.loaded or entry.changed:
            return None
        return self._built(entry)

    async def get(self, cluster: Name) -> T:
        """The value of a cluster.

        Raises:
            StorageError: the store cannot be read.
        """
        entry = self._entries.get(cluster)
        if entry is None:
            entry = _Entry()
            self._entries.set(cluster, entry)
        if entry.changed or not entry.loaded:
            async with entry.lock:
                if not entry.loaded:
                    await self._load(cluster, entry)
                if entry.changed:
                    await self._refresh(entry)
        return self._built(entry)

    def forget(self, cluster: Name) -> None:
        """Drop the objects of a cluster that is gone."""
        self._entries.pop(cluster)

    def _built(self, entry: _Entry[T]) -> T:
        if entry.built is None:
            entry.built = self._build(entry.objects)
        return entry.built

    # WriteObserver

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write of one of the resources begins."""
        self._writing.begin(keys)
        self._mark(cluster, keys)

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not."""
        self._writing.end(keys)
        self._mark(cluster, keys)

    def _event(self, keys: ResourceKeys, event: ObjectEvent) -> None:
        cluster = Name(event.route.cluster)
        self._mark(cluster, [keys.object_key(cluster, "", event.route.name)])

    def _mark(self, cluster: Name, keys: Sequence[str]) -> None:
        entry = self._entries.peek(cluster)
        if entry is not None:
            # The write that creates a cluster stores its LogicalCluster, too.
            entry.changed.update((key, object()) for key in keys if key.startswith(self._prefixes))

    # Reading

    async def _load(self, cluster: Name, entry: _Entry[T]) -> None:
        entry.objects.clear()
        entry.built = None
        turns = TimeSlice()
        for resource, keys in self._resources.items():
            async for page in read_pages(self._access.storage, keys.cluster_prefix(cluster), limit=_PAGE):
                for item in page.items:
                    self._put(entry, resource, keys.parse(item.key).name, item.value)
                    await turns.yield_if_due()
        entry.loaded = True

    async def _refresh(self, entry: _Entry[T]) -> None:
        """Read objects that may have changed. Those with a write under way stay marked: the next decision reads them once more."""
        for key, mark in list(entry.changed.items()):
            value: bytes | None = None
            try:
                item = await self._access.storage.get(key)
                value = item.value if item is not None else None
            except DamagedError:
                pass
            resource = next(resource for resource, keys in self._resources.items() if key.startswith(keys.prefix))
            self._put(entry, resource, self._resources[resource].parse(key).name, value)
            if entry.changed.get(key) is mark and key not in self._writing:
                del entry.changed[key]

    def _put(self, entry: _Entry[T], resource: GroupResource, name: str, value: bytes | None) -> None:
        """Keep what a stored object says. One that other software has stored and that cannot be read says nothing."""
        parsed = None
        if value is not None:
            try:
                parsed = self._parse(resource, orjson.loads(value))
            except (AttributeError, KeyError, TypeError, ValueError):
                parsed = None
        objects = entry.objects.setdefault(resource, {})
        if parsed is None:
            objects.pop(name, None)
        else:
            objects[name] = parsed
        if not objects:
            del entry.objects[resource]
        entry.built = None
