"""`Watcher`: one subscriber's bounded buffer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from kcp_py.watchcache.event import ObjectEvent

_NOT_BEGUN: Final = sys.maxsize


class WatchEndedError(Exception):
    """The watch is over and its stream ends without an error: its resource changed, its cluster is gone, or the server stops."""


class WatchOverflowError(Exception):
    """The subscriber read too slowly: its buffer was full. It has to list again."""


class Watcher:
    """Events of one resource (of one cluster and namespace, or wider) from some revision on.

    The feed puts, one task takes: `take` returns what is there, `wait` sleeps until there is something. A full buffer drops the
    subscriber, never the event of another.
    """

    __slots__ = ("_after", "_backlog", "_buffer", "_ended", "_limit", "_waiter", "cluster", "name", "namespace", "prefix")

    def __init__(self, prefix: str, *, cluster: str, namespace: str, name: str, limit: int, after: int = _NOT_BEGUN) -> None:
        self.prefix = prefix
        self.cluster = cluster
        """Empty for all clusters."""
        self.namespace = namespace
        """Empty for all namespaces."""
        self.name = name
        """Empty for all names."""
        self._after = after
        self._limit = limit
        self._buffer: list[ObjectEvent] = []
        self._backlog: AsyncGenerator[Sequence[ObjectEvent], None] | None = None
        self._ended: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def wants(self, event: ObjectEvent) -> bool:
        """Whether the event lies in what is watched."""
        route = event.route
        return (
            route.prefix == self.prefix
            and event.mod_revision > self._after
            and (not self.cluster or route.cluster == self.cluster)
            and (not self.namespace or route.namespace == self.namespace)
            and (not self.name or route.name == self.name)
        )

    def offer(self, event: ObjectEvent) -> None:
        """Called by the feed for events of the prefix and cluster."""
        # Nothing is taken in after the end: a cluster made again under the same name is a stranger to this watcher.
        if event.mod_revision <= self._after or self._ended is not None:
            return
        if (self.namespace and event.route.namespace != self.namespace) or (self.name and event.route.name != self.name):
            return
        if len(self._buffer) >= self._limit:
            self.end(WatchOverflowError())
            return
        self._buffer.append(event)
        self.wake()

    def end(self, reason: Exception) -> None:
        """Finish the watch: what is buffered is still delivered after a clean end, and lost after an overflow."""
        if self._ended is None:
            self._ended = reason
            if isinstance(reason, WatchOverflowError):
                self._buffer.clear()
            self.wake()

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def raise_if_ended(self) -> None:
        """Raise what `take` would raise once everything before the end was taken."""
        if self._ended is not None:
            raise self._ended

    def begin(self, after: int) -> None:
        """Take in events after a revision from now on. Called by the feed, once, for a watcher that was made without a start."""
        self._after = after

    def wake(self) -> None:
        """Let the waiting task run, event or not."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def follow(self, backlog: AsyncGenerator[Sequence[ObjectEvent], None]) -> None:
        """Deliver these older events before the live ones."""
        self._backlog = backlog

    async def take(self) -> Sequence[ObjectEvent]:
        """What has come since the last call, without waiting for more; older events first, in slices.

        Raises:
            WatchEndedError: the end, once everything before it was taken.
            WatchOverflowError: the reader was too slow.
            CompactedError: the older events are no longer kept.
        """
        while self._backlog is not None:
            if isinstance(self._ended, WatchOverflowError):
                raise self._ended
            try:
                events = await anext(self._backlog)
            except StopAsyncIteration:
                self._backlog = None
                break
            if events:
                return events
        if self._buffer:
            events, self._buffer = self._buffer, []
            return events
        if self._ended is not None:
            raise self._ended
        return ()

    def wait(self) -> asyncio.Future[None]:
        """Sleep until there is something to take, or until `wake`: to be awaited at once, by one task at a time."""
        # Not a coroutine function: thousands of watches sleep here, and each would hold a coroutine more.
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._buffer or self._ended is not None or self._backlog is not None:
            waiter.set_result(None)
        return waiter

    async def aclose(self) -> None:
        """Release what the backlog holds."""
        if self._backlog is not None:
            await self._backlog.aclose()
            self._backlog = None
