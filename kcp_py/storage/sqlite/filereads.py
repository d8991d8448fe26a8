"""`FileReads`: the part of a driver that reads a database file, whether this process or another one writes it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Generic, Protocol, TypeVar

from kcp_py.storage.contract import LARGEST_PAGE_BYTES, KeyValue, RangeResult, UnavailableError, WatchBatch
from kcp_py.storage.feed import Feed
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.reader import Reader
from kcp_py.storage.sqlite.salvage import Limit

NOT_OPEN = "the store is not open"


class OpenFile(Protocol):
    """The parts of an open store that reads use."""

    @property
    def reader(self) -> Reader: ...

    @property
    def feed(self) -> Feed: ...


P = TypeVar("P", bound=OpenFile)


class FileReads(Generic[P]):
    """Reads of the contract, and watches. A derived class has `get`, which is called most."""

    def __init__(self, *, hot_keys: int, hot_bytes: int, span_bytes: int) -> None:
        """The file is opened later.

        Args:
            hot_keys: the number of recently read keys that are cached.
            hot_bytes: the total size of their values.
            span_bytes: the size of the cache of rendered ranges.
        """
        self._hot_keys = hot_keys
        self._hot_bytes = hot_bytes
        self._parts: P | None = None
        self.range_cache = RangeCache(max_bytes=span_bytes)
        """The cache of rendered ranges. `revision` returns when it is right for the revision that it returns."""

    async def get_at(self, key: str, revision: int, *, keys_only: bool = False) -> KeyValue | None:
        """`ReadsOldKeys.get_at`."""
        return await self._opened().reader.get_at(key, revision, keys_only=keys_only)

    async def get_each(self, keys: Sequence[str]) -> list[KeyValue | None]:
        """`ReadsManyKeys.get_each`. The cache of recently read keys is left as it is."""
        return await self._opened().reader.get_each(keys)

    async def count_keys(self, prefix: str, *, start: str, most: int, revision: int) -> int:
        """`CountsKeys.count_keys`."""
        return await self._opened().reader.count_keys(prefix, start=start, most=most, revision=revision)

    async def range(
        self,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        revision: int = 0,
        count: bool = False,
        keys_only: bool = False,
        max_bytes: int = LARGEST_PAGE_BYTES,
    ) -> RangeResult:
        """`Storage.range`."""
        reader = self._opened().reader
        return await reader.range(prefix, start=start, limit=Limit(limit, max_bytes), revision=revision, count=count, keys_only=keys_only)

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`."""
        async with contextlib.aclosing(self._opened().feed.watch(prefix, start_revision=start_revision)) as batches:
            async for batch in batches:
                yield batch

    def _new_hot(self) -> HotKeys:
        return HotKeys(max_keys=self._hot_keys, max_bytes=self._hot_bytes)

    def _opened(self) -> P:
        if self._parts is None:
            raise UnavailableError(NOT_OPEN)
        return self._parts
