"""By how much a transaction changes what the objects of a cluster use, and counting anew what they use.

Every stored object counts, with two exceptions: the LogicalCluster is not counted, and events count with their bytes only (kcp counts no
events, so that a full cluster can be debugged).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import NOTHING, Used
from kcp_py.registry.quota.usage import IGNORED
from kcp_py.storage.contract import Compare, ConflictError, KeyValue, Operation, Put, Storage, prefix_end, readable
from kcp_py.storage.keys import CUSTOM_RESOURCES, prefix_in_cluster, resource_of, resource_prefix, route_of

DEFINITIONS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
CLUSTERS: Final = GroupResource("core.kcp.io", "logicalclusters")

_DELETION: Final = b'"deletionTimestamp":"'
_ROOM_TO_GO: Final = 1024
"""Bytes by which an object may grow when its deletion begins, and when one of its finalizers is removed."""
_PAGE: Final = 500


class Growth(NamedTuple):
    """What a transaction does to the usage of its cluster."""

    used: Used = NOTHING
    """The difference."""
    refused: Used = NOTHING
    """The part of it that is refused where it exceeds a limit: deletions have to work in a full cluster."""
    resource: GroupResource = CLUSTERS
    """Of the first object."""
    name: str = ""
    """Of the first object."""
    compares: tuple[Compare, ...] = ()
    """What has to hold so that it is right, beyond the conditions of the transaction."""


def added(one: Used, other: Used) -> Used:
    """The sum of two differences."""
    return Used(one.objects + other.objects, one.size + other.size, one.definitions + other.definitions)


async def growth_of(
    storage: Storage, root: str, cluster: Name, compares: Sequence[Compare], operations: Sequence[Operation], *, enforced: bool
) -> Growth:
    """What a transaction does to the usage of its cluster.

    Args:
        storage: the store.
        root: its prefix, such as `/registry`.
        cluster: in which the objects are.
        compares: the conditions; those on the objects tell which of them exist.
        operations: the changes.
        enforced: whether it can be refused.

    Raises:
        ConflictError: an object is not any more what the conditions say.
        StorageError: the store could not be read.
    """
    revisions = {compare.key: compare.mod_revision for compare in compares if compare.mod_revision is not None}
    used, refused, first = NOTHING, NOTHING, (CLUSTERS, "")
    further: list[Compare] = []
    for operation in operations:
        route = route_of(operation.key, root)
        if route is None or route.cluster != cluster:
            continue
        resource = resource_of(route.prefix, root)
        if resource == CLUSTERS:
            continue
        if not first[1]:
            first = resource, route.name
        item: KeyValue | None = None
        if revisions.get(operation.key) != 0:
            item = await storage.get(operation.key)
            revision = item.mod_revision if item is not None else 0
            if operation.key not in revisions:
                further.append(Compare(operation.key, mod_revision=revision))
            elif revisions[operation.key] != revision:
                raise ConflictError(operation.key, item)
        value = operation.value if isinstance(operation, Put) else None
        change = _difference(resource, None if item is None else item.value, value)
        used = added(used, change)
        if enforced and (item is None or value is None or not _is_going(item.value, value)):
            refused = added(refused, change)
    return Growth(used, refused, *first, tuple(further))


def _difference(resource: GroupResource, before: bytes | None, after: bytes | None) -> Used:
    number = (after is not None) - (before is not None)
    return Used(
        0 if resource in IGNORED else number,
        len(after or b"") - len(before or b""),
        number if resource == DEFINITIONS else 0,
    )


def _is_going(before: bytes, after: bytes) -> bool:
    """Whether a write begins a deletion or removes a finalizer of an object that is being deleted.

    Such a write may add little: the time of the deletion, or the entry of its writer in the managed fields. A removal adds nothing else:
    an object can have very many finalizers.
    """
    if len(after) - len(before) > _ROOM_TO_GO or _DELETION not in after:
        return False
    old, new = orjson.loads(before), orjson.loads(after)
    if not new["metadata"].get("deletionTimestamp"):
        return False
    if not old["metadata"].get("deletionTimestamp"):
        return True
    return _finalizers(new) < _finalizers(old) and _size_without_managers(new) <= _size_without_managers(old)


def _size_without_managers(obj: dict[str, Any]) -> int:
    """Changes `obj`."""
    obj["metadata"].pop("managedFields", None)
    return len(orjson.dumps(obj))


def _finalizers(obj: dict[str, Any]) -> set[str]:
    """Those of the metadata, and of the specification of a namespace."""
    spec = obj.get("spec")
    of_spec = (spec.get("finalizers") or ()) if obj.get("kind") == "Namespace" and isinstance(spec, dict) else ()
    return {*(obj["metadata"].get("finalizers") or ()), *of_spec}


async def count_used(storage: Storage, root: str, cluster: Name) -> Used:
    """What the objects of a cluster use. It is exact where the usage did not change meanwhile.

    One read for each resource that has objects in any cluster, and the objects of this one.

    Args:
        storage: the store.
        root: its prefix, such as `/registry`.
        cluster: whose objects are counted.

    Raises:
        StorageError: the store could not be read.
    """
    used = NOTHING
    start = f"{root}/"
    while True:
        found = await storage.range(f"{root}/", start=start, limit=1, keys_only=True)
        if not found.items:
            return used
        key = found.items[0].key
        prefix = resource_prefix(key, root)
        if not prefix:
            start = prefix_end(f"{key.rpartition('/')[0]}/")
            continue
        for below in (prefix, f"{prefix}{CUSTOM_RESOURCES}/"):
            used = added(used, await _count_below(storage, root, prefix_in_cluster(below, cluster), cluster))
        start = prefix_end(prefix)


async def _count_below(storage: Storage, root: str, prefix: str, cluster: Name) -> Used:
    used = NOTHING
    start = ""
    while True:
        page = await readable(storage.range(prefix, start=start, limit=_PAGE))  # damaged objects do not count
        for item in page.items:
            route = route_of(item.key, root)
            if route is not None and route.cluster == cluster and (resource := resource_of(route.prefix, root)) != CLUSTERS:
                used = added(used, _difference(resource, None, item.value))
        if not page.more:
            return used
        start = page.items[-1].key + "\x00"
        await asyncio.sleep(0)
