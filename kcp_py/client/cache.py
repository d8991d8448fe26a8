"""`ObjectCache`: objects of one resource by their keys, with indexes, as compact JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import structlog

from kcp_py.client.keys import Key
from kcp_py.logicalcluster import Name
from kcp_py.telemetry.programcode import passes

Indexer = Callable[[Mapping[str, Any]], Iterable[str]]
"""The values under which an index finds an object."""

_Place = tuple[str, str]
"""Namespace and name."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.client")


def by_owner(obj: Mapping[str, Any]) -> Iterable[str]:
    """An indexer: the uids of the owners."""
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()]


def by_label(label: str) -> Indexer:
    """An indexer: the value of a label, for objects that have it."""

    def values(obj: Mapping[str, Any]) -> Iterable[str]:
        found = (obj["metadata"].get("labels") or {}).get(label)
        return () if found is None else (found,)

    return values


class ObjectCache:
    """Objects as JSON: decoded ones take several times as much memory. Each reader gets objects of its own."""

    def __init__(self, indexers: Mapping[str, Indexer] | None = None) -> None:
        """Make an empty cache; `indexers` by the names of their indexes."""
        self._objects: dict[Name, dict[_Place, bytes]] = {}
        self._indexers = dict(indexers or {})
        self._indexes: dict[str, dict[tuple[Name, str], set[_Place]]] = {name: {} for name in self._indexers}
        self._count = 0

    def __len__(self) -> int:
        """How many objects there are."""
        return self._count

    def __iter__(self) -> Iterator[Key]:
        """The keys of all objects at this time."""
        return iter([Key(cluster, *place) for cluster, objects in self._objects.items() for place in objects])

    @property
    def clusters(self) -> Sequence[Name]:
        """The clusters that have objects."""
        return list(self._objects)

    def add_indexer(self, name: str, indexer: Indexer) -> None:
        """Add an index, over the objects that there are and those that come.

        Raises:
            ValueError: another indexer has the name.
        """
        if self._indexers.get(name) is indexer:
            return
        if name in self._indexers:
            raise ValueError(f"there is an index {name!r} already")
        self._indexers[name] = indexer
        index = self._indexes[name] = {}
        for key in self:
            obj = self.get(key)
            assert obj is not None
            for value in _values(name, indexer, obj):
                index.setdefault((key.cluster, value), set()).add(key[1:])

    def get(self, key: Key) -> dict[str, Any] | None:
        """An object; None where there is none."""
        found = self._objects.get(key.cluster, {}).get(key[1:])
        return None if found is None else orjson.loads(found)

    def put(self, key: Key, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        """Store an object; the one that was there before."""
        before = self.remove(key)
        self._objects.setdefault(key.cluster, {})[key[1:]] = orjson.dumps(obj)
        self._count += 1
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in _values(name, indexer, obj):
                index.setdefault((key.cluster, value), set()).add(key[1:])
        return before

    def remove(self, key: Key) -> dict[str, Any] | None:
        """Forget an object; it, or None where there is none."""
        objects = self._objects.get(key.cluster, {})
        found = objects.pop(key[1:], None)
        if found is None:
            return None
        self._count -= 1
        if not objects:
            del self._objects[key.cluster]
        before: dict[str, Any] = orjson.loads(found)
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in _values(name, indexer, before):
                places = index.get((key.cluster, value))
                if places is not None:
                    places.discard(key[1:])
                    if not places:
                        del index[key.cluster, value]
        return before

    def keys(self, cluster: Name | None = None, namespace: str = "") -> list[Key]:
        """The keys of a cluster or of all, of a namespace or of all."""
        if cluster is None:
            return [key for key in self if not namespace or key.namespace == namespace]
        return [Key(cluster, *place) for place in self._objects.get(cluster, ()) if not namespace or place[0] == namespace]

    def indexed(self, index: str, cluster: Name, value: str) -> list[Key]:
        """The keys that an index has for a value, in one cluster.

        Raises:
            KeyError: there is no such index.
        """
        return [Key(cluster, *place) for place in sorted(self._indexes[index].get((cluster, value), ()))]


def _values(name: str, indexer: Indexer, obj: Mapping[str, Any]) -> set[str]:
    """What an indexer says; nothing where it fails: an object of one tenant must not stop the cache for all others."""
    try:
        return set(indexer(obj))
    except BaseException as error:
        if passes(error):
            raise
        _log.error("indexer_failed", index=name, name=(obj.get("metadata") or {}).get("name"), exc_info=error)
        return set()
