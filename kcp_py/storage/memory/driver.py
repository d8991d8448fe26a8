"""The in-memory driver: a sorted list of keys, their present values, and the events since the last compaction."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Sequence
from typing import Self

from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    CompactedError,
    Compare,
    ConflictError,
    Delete,
    Event,
    FutureRevisionError,
    KeyValue,
    Operation,
    Put,
    RangeResult,
    UnavailableError,
    WatchBatch,
    fitting,
    prefix_end,
)
from kcp_py.storage.feed import Changes, Feed
from kcp_py.storage.validation import check_transaction

_SLICE = 1000


class MemoryStorage:
    """A `Storage` without a disk. The data survives `__aexit__` and is available at the next `__aenter__` of the same object."""

    def __init__(self) -> None:
        self._feed: Feed | None = None
        self._forget()

    def _forget(self) -> None:
        self._keys: list[str] = []
        self._current: dict[str, KeyValue] = {}
        self._events: list[Event] = []
        self._revision = 0
        self._compact_revision = 0

    async def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        self._open_feed()
        return self._current.get(key)

    async def get_each(self, keys: Sequence[str]) -> list[KeyValue | None]:
        """`ReadsManyKeys.get_each`."""
        self._open_feed()
        return [self._current.get(key) for key in keys]

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
        self._open_feed()
        keys, find = self._keys, self._current
        if revision:
            if revision > self._revision:
                raise FutureRevisionError(revision, self._revision)
            if revision < self._compact_revision:
                raise CompactedError(revision, self._compact_revision)
            if revision < self._revision:
                keys, find = self._at(prefix, revision)
        first = bisect_left(keys, max(prefix, start))
        last = bisect_left(keys, prefix_end(prefix)) if prefix else len(keys)
        total = max(0, last - first)
        taken = min(total, limit) if limit > 0 else total
        items = [find[key] for key in keys[first : first + taken]]
        if keys_only:
            items = [item._replace(value=b"") for item in items]
        elif limit > 0:
            taken = fitting(items, max_bytes)
            del items[taken:]
        return RangeResult(items, revision or self._revision, taken < total, total if count else -1)

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        feed = self._open_feed()
        check_transaction(compares, operations)
        for compare in compares:
            current = self._current.get(compare.key)
            if (compare.mod_revision is not None and compare.mod_revision != (current.mod_revision if current else 0)) or (
                compare.create_revision is not None and compare.create_revision != (current.create_revision if current else 0)
            ):
                raise ConflictError(compare.key, current)
        effective = [one for one in operations if isinstance(one, Put) or one.key in self._current]
        if effective:
            self._record(effective)
            feed.publish(self._apply(effective), self._revision)
        return self._revision

    def _record(self, operations: Sequence[Operation]) -> None:
        """Called with the operations of a transaction before they are carried out. It may raise a `StorageError`."""

    def _apply(self, operations: Sequence[Operation]) -> list[Event]:
        """Carry out the operations of a transaction, each of which changes something."""
        revision = self._revision + 1
        events = []
        for operation in operations:
            key = operation.key
            previous = self._current.get(key)
            match operation:
                case Put(_, value):
                    current = KeyValue(key, bytes(value), revision, previous.create_revision if previous else revision)
                    self._current[key] = current
                    if previous is None:
                        insort(self._keys, key)
                    events.append(Event(key, current.value, revision, current.create_revision, previous))
                case Delete() if previous is not None:
                    del self._current[key]
                    del self._keys[bisect_left(self._keys, key)]
                    events.append(Event(key, None, revision, previous.create_revision, previous))
        self._revision = revision
        self._events += events
        return events

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`."""
        batches = self._open_feed().watch(prefix, start_revision=start_revision)
        try:
            async for batch in batches:
                yield batch
        finally:
            await batches.aclose()

    async def revision(self) -> int:
        """`Storage.revision`."""
        self._open_feed()
        return self._revision

    async def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        self._open_feed()
        if revision > self._revision:
            raise FutureRevisionError(revision, self._revision)
        if revision <= self._compact_revision:
            raise CompactedError(revision, self._compact_revision)
        self._drop_history(revision)

    def _drop_history(self, revision: int) -> None:
        del self._events[: self._first_after(revision)]
        self._compact_revision = revision

    async def check(self) -> None:
        """`Storage.check`."""
        self._open_feed()

    async def __aenter__(self) -> Self:
        self._feed = Feed(self._read_changes, revision=self._revision)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _open_feed(self) -> Feed:
        if self._feed is None:
            raise UnavailableError("the store is not open")
        return self._feed

    def _first_after(self, revision: int) -> int:
        return bisect_left(self._events, revision + 1, key=lambda event: event.mod_revision)

    def _at(self, prefix: str, revision: int) -> tuple[list[str], dict[str, KeyValue]]:
        """The keys under `prefix`, and their values, as they stood after `revision`."""
        last = bisect_left(self._keys, prefix_end(prefix)) if prefix else len(self._keys)
        then = {key: self._current[key] for key in self._keys[bisect_left(self._keys, prefix) : last]}
        for event in reversed(self._events[self._first_after(revision) :]):
            if event.previous is not None and event.key.startswith(prefix):
                then[event.key] = event.previous
            else:
                then.pop(event.key, None)
        return sorted(then), then

    async def _read_changes(self, prefix: str, after: int, until: int) -> Changes:
        if after < self._compact_revision:
            raise CompactedError(after + 1, self._compact_revision)
        first = self._first_after(after)
        until = min(until, self._revision)
        if first + _SLICE < len(self._events):
            until = min(until, self._events[first + _SLICE].mod_revision)
        last = self._first_after(until)
        return Changes([event for event in self._events[first:last] if event.key.startswith(prefix)], until)
