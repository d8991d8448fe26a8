"""Default objects: what clusters have of a resource without storing it, and how the verbs of the store treat them.

A default object is an item whose `create_revision` is 0. It is read like a stored object and listed between stored ones, unless an object
of its name is stored. The first write stores it. A deletion replaces it by another one with a new uid. Those of a cluster are read here,
those of its namespaces in `namespacedefaults`. Watches follow default objects in `registry.default_events` and
`registry.namespace_events`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import Origin, Served
from kcp_py.registry.store.access import Access, check_open, compares_of
from kcp_py.registry.store.namespacedefaults import condition_of, find_in_namespace, namespace_items_at
from kcp_py.storage.contract import Compare, Delete, KeyValue, Operation, Put, Storage
from kcp_py.storage.oldkeys import read_at


def is_default(item: KeyValue) -> bool:
    """Whether an item is a default object, and nothing that is stored."""
    return not item.create_revision


def defaults_of(served: Served, cluster_state: ClusterState) -> dict[str, bytes]:
    """The objects of the resource that the cluster has without storing them, by `place_of`, in the order of their keys."""
    if served.resource.default_objects is None or (cluster_state.terminating and served.resource.namespaced):
        # In a terminating cluster the namespaces stay, and their content goes.
        return {}
    origin = origin_of(served, cluster_state)
    return dict(served.resource.default_objects(cluster_state.name, origin.uid, origin.created_at))


def place_of(namespace: str, name: str) -> str:
    """An object within its cluster, as `DefaultObjects` names it."""
    return f"{namespace}/{name}" if namespace else name


def origin_of(served: Served, cluster_state: ClusterState) -> Origin:
    """What the default objects of a resource come with. The revision is 1 where the cluster has none yet, since 0 would read as unset."""
    return served.origin or Origin(cluster_state.uid, cluster_state.created_at, cluster_state.created_revision or 1)


async def find_default(access: Access, cluster_state: ClusterState, served: Served, namespace: str, name: str) -> KeyValue | None:
    """The default object of a name, where nothing of the name is stored; None where there is none.

    Raises:
        StaleStateError: the CRD that it comes with was written since the resource was worked out.
    """
    if served.resource.namespace_object is not None:
        found = await find_in_namespace(access.storage, served.resource, cluster_state, namespace, name)
        return None if found is None else found[0]
    value = defaults_of(served, cluster_state).get(place_of(namespace, name))
    if value is None:
        return None
    origin = origin_of(served, cluster_state)
    if origin.life is not None:
        crd = await access.storage.get(origin.life.key)
        if crd is None or crd.mod_revision != origin.revision:
            raise StaleStateError(origin.life.key)
    return KeyValue(served.resource.keys.object_key(cluster_state.name, namespace, name), value, origin.revision, 0)


async def default_items_at(
    access: Access, served: Served, cluster_state: ClusterState, revision: int, *, namespace: str = "", start: str = "", limit: int = 0
) -> list[KeyValue]:
    """What a cluster has of a resource by default at a revision, whether or not it is hidden by something stored.

    Args:
        access: the store.
        served: the resource in the cluster.
        cluster_state: the cluster.
        revision: of the list.
        namespace: that is listed; empty for all. Items of other namespaces may be among them.
        start: leave out keys before this one.
        limit: of the page that they are for; 0 for all. Some of those behind the page may be left out.
    """
    if served.resource.namespace_object is not None:
        return await namespace_items_at(access, served.resource, cluster_state, revision, namespace=namespace, start=start, limit=limit)
    items = [item for item in default_items(served, cluster_state) if item.key >= start]
    if not items or served.origin is None:
        return items
    current = await crd_revision_at(access.storage, served.origin, revision)
    if current == served.origin.revision:
        return items
    # Other servers may have written the CRD, of which this one has not heard yet; or the list is of an older revision.
    return [item._replace(mod_revision=current) for item in items] if current else []


async def crd_revision_at(storage: Storage, origin: Origin, revision: int) -> int:
    """The revision of the last write, up to a revision, of the CRD that default objects come with; 0 where it was not there."""
    life = origin.life
    assert life is not None, "objects that come with a cluster are as old as it"
    item = await read_at(storage, life.key, revision, keys_only=True)
    return item.mod_revision if item is not None and item.create_revision == life.create_revision else 0


def default_items(served: Served, cluster_state: ClusterState) -> list[KeyValue]:
    """What a cluster has of a resource by default, in the order of keys, as far as is known here. It may be hidden by something stored."""
    if served.resource.default_objects is None:
        return []
    keys = served.resource.keys
    revision = origin_of(served, cluster_state).revision
    items: list[KeyValue] = []
    for place, value in defaults_of(served, cluster_state).items():
        namespace, _, name = place.rpartition("/")
        items.append(KeyValue(keys.object_key(cluster_state.name, namespace, name), value, revision, 0))
    return items


def with_defaults(stored: list[KeyValue], defaults: Sequence[KeyValue]) -> list[KeyValue]:
    """Stored items, in the order of their keys, and between them default ones where nothing is stored in their places."""
    at = [bisect_left(stored, item.key, key=_key) for item in defaults]
    missing = [item for place, item in zip(at, defaults, strict=True) if place == len(stored) or stored[place].key != item.key]
    # Both are in order, which sorting makes use of. Inserting thousands into a list takes time in proportion to their square.
    return sorted((*stored, *missing), key=_key) if missing else stored


def _key(item: KeyValue) -> str:
    return item.key


async def storing(
    access: Access, cluster_state: ClusterState, served: Served, item: KeyValue, value: bytes, *, name: str
) -> tuple[Sequence[Compare], Sequence[Operation]]:
    """The transaction that replaces an item; of a default object it is the first one that is stored.

    Args:
        access: the store.
        cluster_state: the cluster.
        served: the resource.
        item: the object that was read, stored or not.
        value: the stored form of the new object.
        name: of the object.

    Raises:
        StatusError: 403 for a default object of a cluster that terminates.
        StaleStateError: the namespace of a default object is gone, or another one.
    """
    if not is_default(item):
        return (Compare(item.key, mod_revision=item.mod_revision), *cluster_state.life, *served.guards), (Put(item.key, value),)
    check_open(cluster_state, served.resource, name)
    compares = [Compare(item.key, mod_revision=0), *compares_of(cluster_state, served)]
    if served.resource.namespace_object is not None:
        compares.append(await condition_of(access, served.resource, cluster_state, item))
    return compares, (Put(item.key, value), *cluster_state.create_with)


class Replacement(NamedTuple):
    """What takes the place of a default object that is deleted."""

    value: bytes
    compares: Sequence[Compare] = ()
    """What has to hold when it is stored."""


async def replacement_of(access: Access, cluster_state: ClusterState, served: Served, metadata: dict[str, Any]) -> Replacement | None:
    """What takes the place of a default object that is deleted: the same with a new uid. None for any other object.

    Upstream's control plane creates such objects again at once, and clients that wait for the end of a deletion look for another uid. The
    old object goes and the new one comes in one transaction; watches get a DELETED and an ADDED.
    """
    if cluster_state.terminating:
        return None
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    compares: Sequence[Compare] = ()
    if served.resource.namespace_object is not None:
        found = await find_in_namespace(access.storage, served.resource, cluster_state, namespace, name)
        value = None if found is None else found[0].value
        compares = () if found is None else (found[1],)
    else:
        value = defaults_of(served, cluster_state).get(place_of(namespace, name))
    if value is None:
        return None
    obj = orjson.loads(value)
    obj["metadata"] |= {"uid": access.new_uid(), "creationTimestamp": access.now()}
    return Replacement(encode_stored(obj), compares)


def removal(
    cluster_state: ClusterState, served: Served, item: KeyValue, replacement: Replacement | None
) -> tuple[Sequence[Compare], Sequence[Operation]]:
    """The transaction with which an object goes, and its replacement comes if there is one."""
    compare = Compare(item.key, mod_revision=0 if is_default(item) else item.mod_revision)
    if replacement is None:
        return (compare, *cluster_state.life), (Delete(item.key),)
    compares = (compare, *compares_of(cluster_state, served), *replacement.compares)
    return compares, (Put(item.key, replacement.value), *cluster_state.create_with)
