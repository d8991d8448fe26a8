"""`Watcher`: one subscriber's bounded buffer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from kcp_py.request.sight import Sight
from kcp_py.storage.keys import Route
from kcp_py.watchcache.deliveries import Deliveries, Subscriber
from kcp_py.watchcache.event import ObjectEvent

_NOT_BEGUN: Final = sys.maxsize


class WatchEndedError(Exception):
    """The watch ended without an error: its resource changed, its cluster was deleted, or the server stops."""


class WatchRevokedError(WatchEndedError):
    """The watch ended because its caller may not watch any more. Events that were not taken are dropped."""


class WatchCutError(Exception):
    """The watch ends as if the connection had broken. Tests end watches so."""


class WatchOverflowError(Exception):
    """The subscriber read too slowly and its buffer was full. It has to list again."""


_DROPPING: Final = (WatchOverflowError, WatchRevokedError)
"""The ends after which no events are delivered."""


class Watcher:
    """Events of one resource (of one cluster and namespace, or wider) from some revision on.

    The fan-out adds events, and one task takes them: `take` returns the available events, `wait` sleeps until there are some. After
    `deliver_to`, a subscriber gets the events that come while the task sleeps, which then sleeps on. If the buffer is full, the watch of
    this subscriber ends; other subscribers are not affected.
    """

    __slots__ = (
        "_after",
        "_backlog",
        "_buffer",
        "_deliveries",
        "_ended",
        "_limit",
        "_subscriber",
        "_waiter",
        "cluster",
        "name",
        "namespace",
        "prefix",
        "sight",
    )

    def __init__(
        self,
        prefix: str,
        *,
        cluster: str,
        namespace: str,
        name: str,
        limit: int,
        after: int = _NOT_BEGUN,
        sight: Sight | None = None,
    ) -> None:
        self.prefix = prefix
        self.cluster = cluster
        """Empty for all clusters."""
        self.namespace = namespace
        """Empty for all namespaces."""
        self.name = name
        """Empty for all names."""
        self.sight = sight
        """What leaves clusters out; None where nothing does."""
        self._after = after
        self._limit = limit
        self._buffer: list[ObjectEvent] = []
        self._backlog: AsyncGenerator[Sequence[ObjectEvent], None] | None = None
        self._ended: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deliveries: Deliveries | None = None
        self._subscriber: Subscriber | None = None

    def wants(self, event: ObjectEvent) -> bool:
        """Whether the event matches the watch."""
        route = event.route
        return (
            route.prefix == self.prefix
            and event.mod_revision > self._after
            and (not self.cluster or route.cluster == self.cluster)
            and self.selects(route)
            and (self.sight is None or self.sight.shows(route.cluster, event.mod_revision))
        )

    def selects(self, route: Route) -> bool:
        """Whether the watch is for the namespace and the name of an object."""
        return (not self.namespace or route.namespace == self.namespace) and (not self.name or route.name == self.name)

    @property
    def unread(self) -> int:
        """Live events that were not taken."""
        return len(self._buffer)

    @property
    def has_backlog(self) -> bool:
        """Whether older events are still to be delivered before the live ones."""
        return self._backlog is not None

    def offer(self, event: ObjectEvent) -> None:
        """Add an event of the prefix and cluster. Called by the fan-out."""
        # Later events are dropped: a cluster that is created again under the same name is a different cluster.
        if event.mod_revision <= self._after or self._ended is not None:
            return
        if (self.namespace and event.route.namespace != self.namespace) or (self.name and event.route.name != self.name):
            return
        if self.sight is not None and not self.sight.shows(event.route.cluster, event.mod_revision):
            return
        if len(self._buffer) >= self._limit:
            self.end(WatchOverflowError())
            return
        self._buffer.append(event)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if self._deliveries is not None:
                self._deliveries.add(self)
            else:
                waiter.set_result(None)

    def end(self, reason: Exception) -> None:
        """End the watch. Events from before the end are still delivered, except after an overflow or a revocation."""
        if self._ended is None or isinstance(reason, WatchRevokedError):
            self._ended = reason
            if isinstance(reason, _DROPPING):
                self._buffer.clear()
            self.wake()

    @property
    def ended(self) -> bool:
        return self._ended is not None

    @property
    def reason(self) -> Exception | None:
        """Why the watch has ended; None while it has not."""
        return self._ended

    def raise_if_ended(self) -> None:
        """Raise the error that `take` raises after the last event."""
        if self._ended is not None:
            raise self._ended

    def begin(self, after: int) -> None:
        """Accept events after a revision. The fan-out calls it once, for a watcher that was created without a start."""
        self._after = after

    def wake(self) -> None:
        """Wake the waiting task, even without an event."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def follow(self, backlog: AsyncGenerator[Sequence[ObjectEvent], None]) -> None:
        """Deliver these older events before the live ones."""
        self._backlog = backlog

    def deliver_to(self, subscriber: Subscriber | None, deliveries: Deliveries | None) -> None:
        """Let a subscriber have the events that come while the task sleeps in `wait`; with None, the task has all events again."""
        self._subscriber = subscriber
        self._deliveries = deliveries

    def deliver(self) -> bool:
        """Let the subscriber write what has come, if the task sleeps. Called by `Deliveries`.

        Returns:
            Whether nothing is left to do: False asks for `prepare` and another call.
        """
        events, waiter, subscriber = self._buffer, self._waiter, self._subscriber
        # A task that is awake takes the events itself: also those from before the end of the watch, which wakes it.
        if not events or subscriber is None or waiter is None or waiter.done():
            return True
        written = subscriber.write(events)
        if written:
            events.clear()
        elif written is None:
            return False
        else:
            waiter.set_result(None)
        return True

    async def prepare(self) -> None:
        """Let the subscriber prepare what has come. The task may take it meanwhile."""
        if self._subscriber is not None:
            await self._subscriber.prepare(tuple(self._buffer))

    async def take(self) -> Sequence[ObjectEvent]:
        """The events since the last call, without waiting for more. Older events come first, in slices.

        Raises:
            WatchEndedError: the watch ended, and all events before its end were taken; at once for `WatchRevokedError`.
            WatchOverflowError: the subscriber was too slow.
            CompactedError: the older events were compacted.
        """
        while self._backlog is not None:
            if isinstance(self._ended, _DROPPING):
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
        """Sleep until there are events to take, or until `wake`. Await the result at once, in one task at a time."""
        # Not a coroutine function, because each of thousands of sleeping watches would hold one more coroutine.
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._buffer or self._ended is not None or self._backlog is not None:
            waiter.set_result(None)
        return waiter

    async def aclose(self) -> None:
        """Close the read of older events."""
        if self._backlog is not None:
            await self._backlog.aclose()
            self._backlog = None
