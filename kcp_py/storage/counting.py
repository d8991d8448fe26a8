"""`count_keys`: how many keys a range has, up to a bound, by the fastest way that a driver has."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, runtime_checkable

from kcp_py.storage.contract import DamagedError, Storage, readable


@runtime_checkable
class CountsKeys(Protocol):
    """A driver that counts keys up to a bound for less than it takes to read them. Other drivers need no such method."""

    async def count_keys(self, prefix: str, *, start: str, most: int, revision: int) -> int:
        """See `count_keys`."""
        ...


async def count_keys(storage: Storage, prefix: str, *, start: str = "", most: int, revision: int = 0) -> int:
    """The number of keys that begin with a prefix, or `most + 1` if there are more.

    Args:
        storage: the store.
        prefix: what the keys begin with.
        start: skip keys smaller than this one.
        most: the bound, at least 1.
        revision: count the store as it stood then; 0 for now.

    Raises:
        CompactedError: `revision` is no longer kept.
        FutureRevisionError: `revision` has not happened yet.
        DamagedError: the keys cannot be read.
    """
    if isinstance(storage, CountsKeys):
        # Of a damaged range, the readable part is counted.
        with suppress(DamagedError):
            return await storage.count_keys(prefix, start=start, most=most, revision=revision)
    found = await readable(storage.range(prefix, start=start, limit=most, revision=revision, keys_only=True))
    return len(found.items) + found.more
