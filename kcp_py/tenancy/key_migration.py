"""`migrate_keys`: moves objects that an earlier release stored under keys with two meanings.

Earlier releases stored objects of built-in kinds of the cluster named `customresources` below the segment `customresources`, which is also
the identity of custom resources (see `storage.keys`). One such key could mean two objects::

    /registry/apps/deployments/customresources/x/web    the Deployment x/web of the cluster `customresources`, or
                                                        the cluster-scoped custom resource web of the cluster x

The stored object resolves the ambiguity: objects of namespaced kinds contain their namespace. The LogicalCluster object is moved last, so
an interrupted migration continues at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import orjson
import structlog

from kcp_py.apis.kcp.logicalclusters import NAME
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Put, Storage, prefix_end
from kcp_py.storage.keys import ambiguous_prefix, resource_prefix, unambiguous_key
from kcp_py.tenancy.logicalcluster import logical_cluster_keys

_KEYS_AT_ONCE: Final = 1_000
_MOVES_AT_ONCE: Final = 128

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.tenancy")


async def migrate_keys(storage: Storage, root: str) -> int:
    """Move the objects of the cluster named `customresources` to keys with one meaning. It takes one read if there are no such objects.

    Several servers may do this at the same time.

    Returns:
        The number of objects that this call has moved.

    Raises:
        StorageError: the store cannot be read or written; objects that were moved remain at their new keys.
    """
    cluster_key = ambiguous_prefix(logical_cluster_keys(root).prefix) + NAME
    if await storage.get(cluster_key) is None:
        return 0
    moved = 0
    async for prefix in _resource_prefixes(storage, root):
        async for keys in _pages(storage, ambiguous_prefix(prefix)):
            others = [key for key in keys if key != cluster_key]
            for start in range(0, len(others), _MOVES_AT_ONCE):
                moved += sum(await asyncio.gather(*(_move(storage, root, key) for key in others[start : start + _MOVES_AT_ONCE])))
    moved += await _move(storage, root, cluster_key)
    _log.info("keys_migrated", objects=moved)
    return moved


async def _resource_prefixes(storage: Storage, root: str) -> AsyncIterator[str]:
    """The prefixes of all resources with stored objects, each found with one read."""
    start = f"{root}/"
    while True:
        found = await storage.range(f"{root}/", start=start, limit=1, keys_only=True)
        if not found.items:
            return
        prefix = resource_prefix(found.items[0].key, root)
        if prefix:
            yield prefix
        start = prefix_end(prefix) if prefix else found.items[0].key + "\x00"


async def _pages(storage: Storage, prefix: str) -> AsyncIterator[Sequence[str]]:
    """All keys under a prefix."""
    start: str | None = ""
    while start is not None:
        found = await storage.range(prefix, start=start, limit=_KEYS_AT_ONCE, keys_only=True)
        start = found.items[-1].key + "\x00" if found.more else None
        yield [item.key for item in found.items]


async def _move(storage: Storage, root: str, key: str) -> bool:
    """Move one object if its key has two meanings and the object belongs to a built-in kind."""
    if unambiguous_key(key, root, None) == key:
        return False
    item = await storage.get(key)
    if item is None:
        return False
    target = unambiguous_key(key, root, _namespace_of(item))
    if target == key:
        return False
    compares = (Compare(key, mod_revision=item.mod_revision), Compare(target, mod_revision=0))
    try:
        await storage.transact(compares, (Delete(key), Put(target, item.value)))
    except ConflictError as conflict:
        if conflict.key == target:
            _log.warning("key_not_migrated", key=key, target=target)
            return False
        # Another server moved or changed the object: read it again.
        return await _move(storage, root, key)
    return True


def _namespace_of(item: KeyValue) -> str:
    namespace: str = orjson.loads(item.value)["metadata"].get("namespace", "")
    return namespace
