"""`read_each`: many single keys, by the fastest way that a driver has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from kcp_py.storage.contract import KeyValue, Storage

_AT_ONCE: Final = 32
"""Keys that are read at the same time from a driver that reads them one by one."""


@runtime_checkable
class ReadsManyKeys(Protocol):
    """A driver that reads many keys for less than as many calls of `get` cost. Other drivers need no such method."""

    async def get_each(self, keys: Sequence[str]) -> list[KeyValue | None]:
        """See `read_each`."""
        ...


async def read_each(storage: Storage, keys: Sequence[str]) -> list[KeyValue | None]:
    """Some keys as they stand now, as `Storage.get` returns each. They need not be of one revision.

    Args:
        storage: the store.
        keys: whole keys, no more than there is memory for their values.

    Returns:
        As many items as there are keys, in their order; None for a key that does not exist.

    Raises:
        DamagedError: one of them cannot be read.
    """
    if isinstance(storage, ReadsManyKeys):
        return await storage.get_each(keys)
    found: list[KeyValue | None] = []
    for start in range(0, len(keys), _AT_ONCE):
        found += await asyncio.gather(*(storage.get(key) for key in keys[start : start + _AT_ONCE]))
    return found
