"""`RBACIndexes`: the index of each logical cluster, loaded when it is first needed, and right from the answer to each write on.

A store shows a commit to readers before its writer gets the answer, and the feed delivers it later still. So the objects that are being
written, or were written since an index was last brought up to date, are read again before the next decision: one object, not all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from sys import intern
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apis.rbac.policy import GROUP, inherited_objects
from kcp_py.authz.rbac.index import RBACIndex
from kcp_py.logicalcluster import Name
from kcp_py.registry.store import Access
from kcp_py.registry.store.pending import PendingWrites
from kcp_py.storage.contract import DamagedError
from kcp_py.storage.keys import ResourceKeys, resource_keys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, ObjectEvent

_INDEX_BYTES: Final = 1_000
_MOST_CHANGED: Final = 1_000
"""Objects of a cluster that may have changed since its index was read. With more of them all is read again."""
_PAGE: Final = 500
_NAMESPACED: Final = {"clusterroles": False, "clusterrolebindings": False, "roles": True, "rolebindings": True}


@cache
def inherited_index() -> RBACIndex:
    """The index of what every cluster inherits. Shared: do not change it."""
    index = RBACIndex()
    for resource, objects in inherited_objects().items():
        put = index.put_role if resource.endswith("roles") else index.put_binding
        for obj in objects:
            metadata = obj["metadata"]
            put((metadata.get("namespace", ""), metadata["name"]), obj)
    return index


class _Entry:
    """An index and what may have changed since it was read."""

    __slots__ = ("changed", "index", "loaded", "lock")

    def __init__(self) -> None:
        self.index = RBACIndex(inherited_index())
        self.loaded = False
        self.changed: dict[str, object] = {}
        """Keys of objects to read again, each with what marks its latest change."""
        self.lock = asyncio.Lock()


class RBACIndexes:
    """A `WriteObserver` of roles and bindings, which gives the index of a cluster.

    Indexes count against the budget of all caches; loading one again costs four reads. Changes by other servers arrive with the feed.

    An index that is evicted while it is loaded is told about no further writes. Only requests that had arrived before use it, so such
    writes are concurrent with these requests.
    """

    def __init__(self, access: Access, fanout: Fanout, root: str) -> None:
        """Begin to follow writes. `root` is the prefix of the store's keys."""
        self._access = access
        self._listeners: list[Callable[[Name], None]] = []
        self._entries: dict[Name, _Entry] = {}
        self._kept = access.budget.part("rbac", self._entries.pop)
        self._writing = PendingWrites()
        self._resources: dict[str, ResourceKeys] = {
            resource: resource_keys(root, GROUP, resource, namespaced=namespaced) for resource, namespaced in _NAMESPACED.items()
        }
        self._prefixes = tuple(keys.prefix for keys in self._resources.values())
        for keys in self._resources.values():
            access.observe(keys.prefix, self)
            fanout.listen(keys.prefix, partial(self._event, keys))
        fanout.listen_gaps(self._clear)

    def current(self, cluster: Name) -> RBACIndex | None:
        """The index of a cluster, where nothing has to be read for it; else None."""
        entry = self._entries.get(cluster)
        return None if entry is None or entry.changed or not entry.loaded else entry.index

    async def get(self, cluster: Name) -> RBACIndex:
        """The index of a cluster; that of the inherited policy where the cluster has no roles and bindings of its own.

        Raises:
            StorageError: the store cannot be read.
        """
        entry = self._entries.get(cluster)
        if entry is None:
            entry = self._entries[cluster] = _Entry()
            # A write that began before the entry may show its outcome to readers after the entry was loaded.
            prefixes = tuple(keys.cluster_prefix(cluster) for keys in self._resources.values())
            begun = self._writing.keys()
            entry.changed.update((key, object()) for key in begun if key.startswith(prefixes))
            self._kept.hold(cluster, _INDEX_BYTES)
        if entry.changed or not entry.loaded:
            async with entry.lock:
                if not entry.loaded:
                    await self._load(cluster, entry)
                if entry.changed:
                    await self._refresh(entry)
            if self._entries.get(cluster) is entry:
                self._kept.hold(cluster, _INDEX_BYTES + entry.index.memory)
        return entry.index

    def listen(self, listener: Callable[[Name], None]) -> None:
        """Call a function with the cluster of each change of roles and bindings, by any server. It must not block and must not raise.

        Changes can be missed where the fan-out reports a gap (`Fanout.listen_gaps`).
        """
        self._listeners.append(listener)

    def forget(self, cluster: Name) -> None:
        """Drop the index of a cluster that is gone."""
        if self._entries.pop(cluster, None) is not None:
            self._kept.release(cluster)

    def _clear(self) -> None:
        self._entries.clear()
        self._kept.clear()

    # WriteObserver

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write of roles or bindings begins."""
        self._writing.begin(keys)
        self._mark(cluster, keys)

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not."""
        self._writing.end(keys)
        self._mark(cluster, keys)

    def _event(self, keys: ResourceKeys, event: ObjectEvent) -> None:
        route = event.route
        cluster = Name(route.cluster)
        self._mark(cluster, [keys.object_key(cluster, route.namespace, route.name)])
        for listener in self._listeners:
            listener(cluster)

    def _mark(self, cluster: Name, keys: Sequence[str]) -> None:
        entry = self._entries.get(cluster)
        if entry is not None:
            # The write that creates a cluster stores its LogicalCluster, too.
            entry.changed.update((key, object()) for key in keys if key.startswith(self._prefixes))
            if len(entry.changed) > _MOST_CHANGED:
                self.forget(cluster)

    # Reading

    async def _load(self, cluster: Name, entry: _Entry) -> None:
        entry.index = RBACIndex(inherited_index())
        turns = TimeSlice()
        for resource, keys in self._resources.items():
            async for page in read_pages(self._access.storage, keys.cluster_prefix(cluster), limit=_PAGE):
                for item in page.items:
                    _put(entry.index, resource, keys, item.key, _decoded(item.value))
                    await turns.yield_if_due()
                for key in page.damaged:
                    _put(entry.index, resource, keys, key, _UNREADABLE)
        entry.loaded = True

    async def _refresh(self, entry: _Entry) -> None:
        """Read objects that may have changed. Those with a write under way stay marked: the next decision reads them once more."""
        for key, mark in list(entry.changed.items()):
            obj: Mapping[str, Any] | None = _UNREADABLE
            try:
                item = await self._access.storage.get(key)
                obj = _decoded(item.value) if item is not None else None
            except DamagedError:
                pass
            resource = next(resource for resource, keys in self._resources.items() if key.startswith(keys.prefix))
            _put(entry.index, resource, self._resources[resource], key, obj)
            if entry.changed.get(key) is mark and key not in self._writing:
                del entry.changed[key]


_UNREADABLE: Final[Mapping[str, Any]] = {}
"""A role without rules, or a binding without subjects. It hides the inherited one of its name, which may allow more."""


def _decoded(value: bytes) -> Mapping[str, Any]:
    """A stored object; an empty one where other software has stored something else."""
    try:
        obj = orjson.loads(value)
    except ValueError:
        return _UNREADABLE
    return obj if isinstance(obj, dict) else _UNREADABLE


def _put(index: RBACIndex, resource: str, keys: ResourceKeys, key: str, obj: Mapping[str, Any] | None) -> None:
    where = keys.parse(key)
    put = index.put_role if resource.endswith("roles") else index.put_binding
    place = (intern(where.namespace), where.name)
    try:
        put(place, obj)
    except (AttributeError, TypeError):
        # Other software has stored fields of other types.
        put(place, _UNREADABLE)
