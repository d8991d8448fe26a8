"""The live feed of an embedded driver: watchers receive events at the commit, and slow watchers read from the history.

A watcher starts with a bounded buffer, which `publish` fills. It reads slices of the driver's history up to the revision at which its
buffer started, and then the buffer. No event is lost or repeated in between, and the watcher catches up under constant writes. A full
buffer is dropped, and the watcher starts again from the last revision that it delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from kcp_py.storage.contract import Event, StorageError, UnavailableError, WatchBatch

LONGEST_BUFFER: Final = 4096
"""Events that a live watcher may leave unread."""

LARGEST_BUFFER: Final = 16 << 20
"""Bytes of values that a live watcher may leave unread. Watchers share the values; the slowest one keeps them in memory."""


class Changes(NamedTuple):
    """A slice of history."""

    events: list[Event]
    revision: int
    """The last revision that the slice covers."""


ReadChanges = Callable[[str, int, int], Awaitable[Changes]]
"""Reads history: (prefix, after, until) -> events with `after` < revision <= `Changes.revision` <= `until`.

Never splits a revision, always advances. Raises CompactedError if events after `after` were compacted.
"""


class Feed:
    """Passes the events of one store to its watchers."""

    def __init__(
        self,
        read_changes: ReadChanges,
        *,
        revision: int,
        progress_interval: float = 0.0,
        longest_buffer: int = LONGEST_BUFFER,
        largest_buffer: int = LARGEST_BUFFER,
    ) -> None:
        """Start a feed.

        Args:
            read_changes: reads the history.
            revision: the current revision of the store.
            progress_interval: seconds by which progress without events may be delayed, so that many writes wake a watcher once; 0 wakes it
                in the next iteration of the event loop.
            longest_buffer: see `LONGEST_BUFFER`.
            largest_buffer: see `LARGEST_BUFFER`.
        """
        self.revision = revision
        """The revision of the last `publish`."""
        self._read_changes = read_changes
        self._progress_interval = progress_interval
        self._longest_buffer = longest_buffer
        self._largest_buffer = largest_buffer
        self._watchers: dict[str, set[_Watcher]] = {}
        self._lengths: dict[int, int] = {}
        self._progress: asyncio.Handle | None = None
        self._ended: StorageError | None = None

    def publish(self, events: Sequence[Event], revision: int) -> None:
        """Publish `revision` and all `events` since the last call, in revision order."""
        self.revision = revision
        watchers = self._watchers
        if not watchers:
            return
        lengths = sorted(self._lengths)
        for event in events:
            key, value, _, _, previous = event
            for length in lengths:
                if length > len(key):
                    break
                interested = watchers.get(key[:length])
                if interested is not None:
                    size = (0 if value is None else len(value)) + (0 if previous is None else len(previous.value))
                    for watcher in interested:
                        watcher.add(event, size)
        if self._progress is None:
            loop = asyncio.get_running_loop()
            if self._progress_interval:
                self._progress = loop.call_later(self._progress_interval, self._wake_all)
            else:
                self._progress = loop.call_soon(self._wake_all)

    def close(self, error: StorageError | None = None) -> None:
        """End every watch with an error; without one, with `UnavailableError`."""
        self._ended = error or UnavailableError("the store is closing")
        if self._progress is not None:
            self._progress.cancel()
        self._wake_all()

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`."""
        wanted = max(0, start_revision - 1)  # events up to this revision are not wanted
        position = min(wanted, self.revision)
        announced = False
        while True:
            self._check_open()
            watcher = _Watcher(self._longest_buffer, self._largest_buffer)
            self._join(prefix, watcher)
            try:
                joined = self.revision  # later events are in the buffer
                while position < joined:
                    changes = await self._read_changes(prefix, position, joined)
                    position = changes.revision
                    if changes.events:
                        yield WatchBatch(changes.events, position)
                    else:
                        await asyncio.sleep(0)
                    self._check_open()
                if not announced:
                    announced = True
                    yield WatchBatch((), position)
                while not watcher.overflowed:
                    if watcher.events or self.revision > position:
                        events = watcher.take()
                        if events and events[0].mod_revision <= wanted:
                            events = [event for event in events if event.mod_revision > wanted]
                        position = self.revision
                        yield WatchBatch(events, position)
                    else:
                        self._check_open()
                        await watcher.wait()
            finally:
                self._leave(prefix, watcher)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _join(self, prefix: str, watcher: _Watcher) -> None:
        self._watchers.setdefault(prefix, set()).add(watcher)
        self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1

    def _leave(self, prefix: str, watcher: _Watcher) -> None:
        watchers = self._watchers[prefix]
        watchers.discard(watcher)
        if not watchers:
            del self._watchers[prefix]
        self._lengths[len(prefix)] -= 1
        if not self._lengths[len(prefix)]:
            del self._lengths[len(prefix)]

    def _wake_all(self) -> None:
        self._progress = None
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.wake()


class _Watcher:
    """The live part of one watch."""

    __slots__ = ("_largest", "_longest", "_size", "_waiter", "events", "overflowed")

    def __init__(self, longest: int, largest: int) -> None:
        self.events: list[Event] = []
        self.overflowed = False
        self._longest = longest
        self._largest = largest
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None

    def add(self, event: Event, size: int) -> None:
        if self.overflowed:
            return
        self._size += size
        events = self.events
        events.append(event)
        if len(events) == 1:
            self.wake()  # it has not run since an earlier event has woken it
        if len(events) > self._longest or self._size > self._largest:
            self.overflowed = True
            self.events = []

    def take(self) -> list[Event]:
        events = self.events
        self.events = []
        self._size = 0
        return events

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
