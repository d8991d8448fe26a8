"""`read_at`: one key at an earlier revision, by the fastest way that a driver has."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kcp_py.storage.contract import KeyValue, Storage


@runtime_checkable
class ReadsOldKeys(Protocol):
    """A driver that reads one key at an earlier revision for less than a range costs. Other drivers need no such method."""

    async def get_at(self, key: str, revision: int, *, keys_only: bool = False) -> KeyValue | None:
        """See `read_at`."""
        ...


async def read_at(storage: Storage, key: str, revision: int, *, keys_only: bool = False) -> KeyValue | None:
    """The key as it stood at a revision, or None.

    Args:
        storage: the store.
        key: the whole key.
        revision: not 0.
        keys_only: whether the value may be left out. A key whose value is damaged can be read so.

    Raises:
        CompactedError: `revision` is no longer kept.
        FutureRevisionError: `revision` has not happened yet.
        DamagedError: the value cannot be read.
    """
    if isinstance(storage, ReadsOldKeys):
        return await storage.get_at(key, revision, keys_only=keys_only)
    found = await storage.range(key, limit=1, revision=revision, keys_only=keys_only)
    return found.items[0] if found.items and found.items[0].key == key else None
