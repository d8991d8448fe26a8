"""`WatchedStorage`: a store that other servers write to as well, with reads from memory.

One watch of the whole store keeps known keys and cached ranges current, and feeds the readers of this watch. A read first gets the read
index, then waits until the watch has come so far, and is answered from memory. If the watch does not come so far in time, or the key is not
known, the store answers.

The cached state is always that of the position of the watch, or a later one:

* An event replaces or drops cached keys and ranges before the position advances.
* A key that was read from the store is kept only if no event after the revision of this read was applied.
* A range is read with a `RangeCache.reading` open, and only kept when the position has reached its revision. So all events that concern
  it were applied, and `RangeCache` has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, Protocol, Self

import structlog

from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    CompactedError,
    Event,
    KeyValue,
    RangeResult,
    Storage,
    StorageError,
    UnavailableError,
    WatchBatch,
)
from kcp_py.storage.feed import LARGEST_BUFFER, LONGEST_BUFFER, Changes, Feed
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.watched.keys import KnownKeys
from kcp_py.storage.watched.position import PATIENCE, Position
from kcp_py.storage.watched.readindex import JointReadIndex, ReadIndex
from kcp_py.storage.wrapping import WrappedStorage

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.storage")
_PAUSE: Final = 0.1
"""Seconds before a watch that ended starts again."""


class Followed(Storage, Protocol):
    """A store that can be watched by `WatchedStorage`."""

    async def read(self, key: str) -> tuple[KeyValue | None, int]:
        """`get`, with the revision of the store at which the key was read."""
        ...

    async def request_progress(self) -> None:
        """Have the watches that are behind say how far they have come. It must not wait for the answer."""
        ...


class WatchedStorage(WrappedStorage):
    """A `Storage` around a shared one. Use it as a context in one event loop."""

    def __init__(
        self,
        storage: Followed,
        prefix: str,
        *,
        max_bytes: int,
        read_index: ReadIndex | None = None,
        patience: float = PATIENCE,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        """Wrap a store, which is entered and left with this one.

        Args:
            storage: the store.
            prefix: of the keys that are watched and kept; other keys are read from the store. Watches of exactly this prefix share
                one watch of the store.
            max_bytes: of keys and ranges in memory.
            read_index: says how far the store has come; None to ask the store.
            patience: seconds that a read waits for the watch.
            sleep: waits before a watch that ended starts again.
        """
        super().__init__(storage)
        self.range_cache = RangeCache(max_bytes=max_bytes // 2, shared=True)
        """The cached ranges."""
        self._store = storage
        self._prefix = prefix
        self._joint = JointReadIndex(storage.revision) if read_index is None else None
        self._read_index: ReadIndex = self._joint or read_index  # type: ignore[assignment]
        self._keys = KnownKeys(max_bytes=max_bytes // 2)
        self._position = Position(request_progress=self._request_progress, patience=patience)
        self._sleep = sleep
        self._feed: Feed | None = None
        self._started = asyncio.Event()
        self._life = 0
        """The number of watches that began or ended. Answers of an earlier life are not kept."""
        self._following: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._joint is not None:
            self._read_index = self._joint = JointReadIndex(self._store.revision)
        self._follow()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._following = None
        self._lose(UnavailableError("the store is closing"))
        self._started.set()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._started.clear()
        if self._joint is not None:
            await self._joint.close()
        await super().__aexit__(*exc_info)

    async def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        if key in self._keys and await self._is_fresh():
            item = self._keys.get(key)
            if item is not None:
                return item if item.value else None
        life = self._life
        item, revision = await self._store.read(key)
        # Later events may have changed the key since, and were not recorded for it.
        if life == self._life and revision >= self._position.revision >= 0 and key.startswith(self._prefix):
            self._keys.remember(item or KeyValue(key, b"", revision, 0))
        return item

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
        """`Storage.range`, from the store. What `range_cache` is filled with includes every event that was applied."""
        found = await self._store.range(
            prefix, start=start, limit=limit, revision=revision, count=count, keys_only=keys_only, max_bytes=max_bytes
        )
        if self.range_cache.is_read(prefix) and not await self._position.reached(found.revision):
            self.range_cache.clear()
        return found

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`. Watches of the prefix of this store share one watch."""
        if prefix == self._prefix:
            await self._started.wait()
            if self._feed is None:
                raise UnavailableError("the store is closing")
            watch = self._feed.watch(prefix, start_revision=start_revision)
        else:
            watch = self._store.watch(prefix, start_revision=start_revision)
        async with aclosing(watch) as batches:
            async for batch in batches:
                yield batch

    async def revision(self) -> int:
        """`Storage.revision`. The ranges in `range_cache` are valid at this revision."""
        # The watch may have ended since the position was reached.
        if await self._is_fresh() and (position := self._position.revision) >= 0:
            return position
        self.range_cache.clear()
        return await self._store.revision()

    async def _is_fresh(self) -> bool:
        """Whether the cached state includes every write that was acknowledged before the call."""
        position = self._position
        if position.lagging:
            return False
        before, life = position.revision, self._life
        index = await self._read_index.read_index()
        if life != self._life:
            return False
        if index < before:
            self._went_back(index)
            return False
        return index <= position.revision or await position.reached(index)

    def _went_back(self, revision: int) -> None:
        """The store was restored or emptied: its revisions are assigned a second time."""
        _log.error("storage_went_back", revision=revision, seen=self._position.revision)
        self._lose(CompactedError(self._position.revision + 1, revision))
        following = self._following
        self._follow()
        if following is not None:
            following.cancel()

    def _request_progress(self) -> None:
        self._start(self._store.request_progress(), "watch-cache-progress")

    def _follow(self) -> None:
        self._following = self._start(self._run(), "watch-cache")

    def _start(self, coroutine: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self) -> None:
        # A failure at the moment of the cancellation may take its place, and another task may follow the store already.
        while self._following is asyncio.current_task():
            try:
                await self._apply_all()
            except Exception as error:  # noqa: BLE001 - the readers of the shared watch receive it, and the watch starts again
                self._lost(error)
            await self._sleep(_PAUSE)

    def _lost(self, error: Exception) -> None:
        if self._feed is not None and self._following is asyncio.current_task():
            known = isinstance(error, StorageError)
            _log.warning("watch_cache_lost", revision=self._position.revision, error=str(error), exc_info=not known)
            self._lose(error if isinstance(error, StorageError) else UnavailableError(f"the watch of the store failed: {error}"))

    async def _apply_all(self) -> None:
        """Apply the changes of the store until its watch fails."""
        revision = await self._store.revision()
        self._begin(revision)
        async with aclosing(self._store.watch(self._prefix, start_revision=revision + 1)) as batches:
            async for batch in batches:
                self._apply(batch)

    def _apply(self, batch: WatchBatch) -> None:
        if batch.events:
            known, cached = self._keys, self.range_cache
            for event in batch.events:
                known.apply(event)
                cached.writing(event.key, event.mod_revision)
            cached.committed()
        self._position.advance(batch.revision)
        if self._feed is not None:
            self._feed.publish(batch.events, max(batch.revision, self._feed.revision))

    def _begin(self, revision: int) -> None:
        self._forget()
        self._position.begin(revision)
        self._feed = Feed(self._read_changes, revision=revision)
        self._started.set()

    def _lose(self, error: StorageError) -> None:
        self._position.lose()
        self._forget()
        self._started.clear()
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close(error)

    def _forget(self) -> None:
        self._life += 1
        self._keys.clear()
        self.range_cache.clear()

    async def _read_changes(self, prefix: str, after: int, until: int) -> Changes:
        """A slice of the history, for a reader of the shared watch that starts in the past or has fallen behind."""
        events: list[Event] = []
        size = 0
        async with aclosing(self._store.watch(prefix, start_revision=after + 1)) as batches:
            async for batch in batches:
                events += batch.events
                size += sum(len(event.value or b"") for event in batch.events)
                if batch.revision >= until or len(events) >= LONGEST_BUFFER or size >= LARGEST_BUFFER:
                    kept = [event for event in events if event.mod_revision <= until]
                    return Changes(kept, min(batch.revision, until))
        raise UnavailableError("the watch of the store ended")
