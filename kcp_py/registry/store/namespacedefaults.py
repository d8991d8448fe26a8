"""Default objects of namespaces: reading the object that every namespace has of a resource, unless one of its name is stored.

Such an object exists from the creation of its namespace until the namespace begins to terminate. It follows from the namespace as that is
stored, or from the cluster where the namespace itself is not stored, so that it costs nothing and all servers agree about it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.namespaces import DEFAULT_NAMESPACES, namespace_keys, namespace_origin
from kcp_py.registry.resource import Origin, ServedResource
from kcp_py.registry.store.access import Access
from kcp_py.storage.contract import Compare, KeyValue, Storage
from kcp_py.storage.keys import ResourceKeys
from kcp_py.storage.oldkeys import read_at
from kcp_py.storage.paging import read_pages

_READ_AT_ONCE: Final = 1_000
"""Namespaces of all clusters that are read together."""
_MOST_LOOKED_UP: Final = 64
"""Default objects whose places are looked up to count those that remain behind a page."""


def namespace_item(resource: ServedResource, cluster_state: ClusterState, name: str, stored: KeyValue | None) -> KeyValue | None:
    """The default object of a namespace, as an item; None where the namespace does not exist, or it or its cluster is being deleted.

    Args:
        resource: which has a `namespace_object`.
        cluster_state: the cluster.
        name: of the namespace.
        stored: the stored namespace, if there is one.
    """
    one = resource.namespace_object
    if one is None or cluster_state.terminating:
        return None
    cluster = cluster_state.name
    cluster_origin = Origin(cluster_state.uid, cluster_state.created_at, cluster_state.created_revision or 1)
    origin = namespace_origin(cluster, cluster_origin, name, stored)
    if origin is None:
        return None
    value = one.make(cluster, name, origin.uid, origin.created_at)
    return KeyValue(resource.keys.object_key(cluster, name, one.name), value, origin.revision, 0)


async def find_in_namespace(
    storage: Storage, resource: ServedResource, cluster_state: ClusterState, namespace: str, name: str
) -> tuple[KeyValue, Compare] | None:
    """The default object of a name, whether or not something stored hides it; None where the namespace has none.

    Returns:
        The object, and what has to hold when it is replaced: the namespace is the one that was read, and not being deleted.
    """
    one = resource.namespace_object
    if one is None or name != one.name or cluster_state.terminating:
        return None
    key = namespace_keys(resource.keys.root).object_key(cluster_state.name, "", namespace)
    stored = await storage.get(key)
    item = namespace_item(resource, cluster_state, namespace, stored)
    return None if item is None else (item, Compare(key, mod_revision=stored.mod_revision if stored is not None else 0))


async def condition_of(access: Access, resource: ServedResource, cluster_state: ClusterState, item: KeyValue) -> Compare:
    """What has to hold when a default object of a namespace is stored: its namespace is the one that it was read from.

    Raises:
        StaleStateError: it is gone, or another one.
    """
    place = resource.keys.locate(item.key)
    found = await find_in_namespace(access.storage, resource, cluster_state, place.namespace, place.name)
    if found is None or found[0] != item:
        raise StaleStateError(namespace_keys(resource.keys.root).object_key(cluster_state.name, "", place.namespace))
    return found[1]


async def namespace_items_at(
    access: Access,
    resource: ServedResource,
    cluster_state: ClusterState,
    revision: int,
    *,
    namespace: str = "",
    start: str = "",
    limit: int = 0,
) -> list[KeyValue]:
    """The default objects of the namespaces of a cluster at a revision, in the order of their keys, whether or not they are hidden.

    Args:
        access: the store.
        resource: of the objects.
        cluster_state: the cluster.
        revision: of the list.
        namespace: this one alone; empty for all.
        start: leave out keys before this one.
        limit: of the page that they are for; 0 for all. Those are left out that are neither in the page nor would be counted behind it.
    """
    if resource.namespace_object is None or cluster_state.terminating:
        return []
    keys = namespace_keys(resource.keys.root)
    stored: Mapping[str, KeyValue | None]
    if namespace:
        key = keys.object_key(cluster_state.name, "", namespace)
        stored = {namespace: await read_at(access.storage, key, revision)}
    else:
        prefix = keys.cluster_prefix(cluster_state.name)
        found = await access.storage.range(prefix, revision=revision)
        stored = {**dict.fromkeys(DEFAULT_NAMESPACES), **{item.key.removeprefix(prefix): item for item in found.items}}
    # Some more than the page can hold, so that a few can be counted behind it.
    return await _items_of(resource, cluster_state, stored, start=start, limit=limit and max(limit, _MOST_LOOKED_UP))


async def namespace_items_everywhere(
    access: Access, resource: ServedResource, clusters: Sequence[ClusterState], revision: int, *, start: str = "", limit: int = 0
) -> list[KeyValue]:
    """The default objects of the namespaces of many clusters at a revision, as `namespace_items_at` reads those of one.

    Args:
        access: the store.
        resource: of the objects.
        clusters: in the order of keys.
        revision: of the list.
        start: leave out keys before this one.
        limit: of the page that they are for; 0 for all. Those behind the page are left out, except for one or more.
    """
    if not clusters:
        return []
    keys = namespace_keys(resource.keys.root)
    items: list[KeyValue] = []
    async with aclosing(_stored_from(access.storage, keys, clusters[0].name, revision)) as namespaces:
        following = await anext(namespaces, None)
        for cluster_state in clusters:
            prefix = keys.cluster_prefix(cluster_state.name)
            stored: dict[str, KeyValue | None] = dict.fromkeys(DEFAULT_NAMESPACES)
            while following is not None and (following.key < prefix or following.key.startswith(prefix)):
                if following.key.startswith(prefix):
                    stored[following.key.removeprefix(prefix)] = following
                following = await anext(namespaces, None)
            items += await _items_of(resource, cluster_state, stored, start=start, limit=limit)
            if limit and len(items) > limit:
                break
    return items


async def _stored_from(storage: Storage, keys: ResourceKeys, first: Name, revision: int) -> AsyncGenerator[KeyValue, None]:
    """The stored namespaces of all clusters at a revision, from a cluster on."""
    # A namespace that is damaged is an error in its own cluster alone.
    async for page in read_pages(storage, keys.prefix, start=keys.cluster_prefix(first), limit=_READ_AT_ONCE, revision=revision):
        for item in page.items:
            yield item


async def _items_of(
    resource: ServedResource, cluster_state: ClusterState, stored: Mapping[str, KeyValue | None], *, start: str, limit: int
) -> list[KeyValue]:
    """The default objects of namespaces, in the order of their keys.

    Args:
        resource: of the objects.
        cluster_state: the cluster.
        stored: the namespaces by their names, None for those that are not stored.
        start: leave out keys before this one.
        limit: one more than so many are enough; 0 for all.
    """
    one = resource.namespace_object
    assert one is not None, "the resource has such objects"
    items: list[KeyValue] = []
    time_slice = TimeSlice()
    # The order of namespaces is not that of their objects' keys: a slash sorts behind a hyphen.
    for name in sorted(stored, key=_with_slash):
        if resource.keys.object_key(cluster_state.name, name, one.name) < start:
            continue
        if (item := namespace_item(resource, cluster_state, name, stored[name])) is not None:
            items.append(item)
            if limit and len(items) > limit:
                break
        await time_slice.yield_if_due()
    return items


def _with_slash(name: str) -> str:
    return f"{name}/"


async def count_visible(access: Access, items: Sequence[KeyValue], revision: int) -> int:
    """How many default objects are not hidden by something stored at a revision; -1 where too many would have to be looked up."""
    if len(items) > _MOST_LOOKED_UP:
        return -1
    visible = 0
    for item in items:
        found = await access.storage.range(item.key, limit=1, revision=revision, keys_only=True)
        visible += not (found.items and found.items[0].key == item.key)
    return visible
