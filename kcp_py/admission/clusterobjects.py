"""`ClusterObjects`: what the objects of one resource say to a plugin, by cluster, right from the answer to each write on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

import orjson

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.store import Access
from kcp_py.storage.keys import CUSTOM_RESOURCES, ResourceKeys, resource_keys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, ObjectEvent

V = TypeVar("V")
Parse = Callable[[Mapping[str, Any]], V]
"""From a stored object to what the plugin needs of it. TypeError, AttributeError, KeyError and ValueError leave the object out."""

_PAGE: Final = 500
_OBJECT_BYTES: Final = 700
_OBJECT_FACTOR: Final = 3
"""Bytes that an object takes when it is parsed, by its stored bytes."""


class Found(NamedTuple, Generic[V]):
    """One object."""

    namespace: str
    name: str
    value: V
    size: int = 0
    """Bytes of the object as it is stored."""


class ClusterObjects(Generic[V]):
    """The objects of a resource whose kind is that of Kubernetes: a built-in one, or one that clusters get as a CRD.

    A cluster that serves no such resource, or one of another schema under its name, has no objects here.
    """

    def __init__(
        self,
        resource: GroupResource,
        parse: Parse[V],
        *,
        namespaced: bool,
        access: Access,
        fanout: Fanout,
        tables: ResourceTables,
        root: str,
    ) -> None:
        """Begin to follow writes. `root` is the prefix of the store's keys."""
        self._resource = resource
        self._parse = parse
        self._access = access
        self._tables = tables
        self._caches: dict[str, ClusterCache[Sequence[Found[V]]]] = {}
        for identity in ("", CUSTOM_RESOURCES):
            self._follow(fanout, resource_keys(root, *resource, namespaced=namespaced, identity=identity))
        builtin = tables.builtin_resources.get(resource)
        self.cached: Final[Callable[[Name], Sequence[Found[V]] | None]] = (
            self._caches[builtin.keys.prefix].cached if builtin is not None else _not_cached
        )
        """The objects of a built-in resource in a cluster; None where they have to be read."""

    def follow(self, changed: Callable[[], None]) -> None:
        """Have a function called when an answer of `cached` may have become another one."""
        for cache in self._caches.values():
            cache.follow(changed)

    async def get(self, cluster: Name) -> Sequence[Found[V]]:
        """The objects of a cluster in the order of their keys.

        Raises:
            StorageError: the store cannot be read.
        """
        resource = await self._tables.find_resource(cluster, self._resource)
        if resource is None or not resource.typed:
            return ()
        cache = self._caches[resource.keys.prefix]
        return cached if (cached := cache.cached(cluster)) is not None else await cache.get(cluster)

    def _follow(self, fanout: Fanout, keys: ResourceKeys) -> None:
        async def load(cluster: Name) -> Sequence[Found[V]]:
            found: list[Found[V]] = []
            async for page in read_pages(self._access.storage, keys.cluster_prefix(cluster), limit=_PAGE):
                for item in page.items:
                    place = keys.parse(item.key)
                    # Other software may have stored something else.
                    with suppress(AttributeError, KeyError, TypeError, ValueError):
                        found.append(Found(place.namespace, place.name, self._parse(orjson.loads(item.value)), len(item.value)))
            return tuple(found)

        cache = ClusterCache(load, budget=self._access.budget, name="admission", weigh=_weigh)

        def changed(event: ObjectEvent) -> None:
            cache.invalidate(Name(event.route.cluster))

        self._caches[keys.prefix] = cache
        self._access.observe(keys.prefix, cache)
        fanout.listen(keys.prefix, changed)
        fanout.listen_gaps(cache.clear)


def _not_cached(cluster: Name) -> None:
    """The cached objects of a resource that clusters get as a CRD."""


def _weigh(cluster: Name, objects: Sequence[Found[Any]]) -> int:
    del cluster
    return sum(_OBJECT_BYTES + _OBJECT_FACTOR * one.size for one in objects)
