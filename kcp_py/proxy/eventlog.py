"""`EventLog`: the latest events of a cache, and the clients that wait for further ones."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from kcp_py.proxy.items import Event

OVERHEAD_BYTES: Final = 1200
"""What an object takes in addition to its JSON."""
_EVENTS: Final = 10_000
_BYTES: Final = 32 * 1024 * 1024
"""Of the events that are kept, and of those that wait for a slow client before its watch ends. It goes on from the events that are kept."""


class Watcher:
    """The events for one client.

    Attributes:
        ended: whether no further events come: the client is too slow, may not read any more, or the resource is gone.
        expired: whether the versions that the client knows mean nothing any more. It has to list again.
    """

    def __init__(self) -> None:
        self.ended = False
        self.expired = False
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()

    def put(self, event: Event) -> None:
        """An event has happened. Events behind one that was lost do not reach the client."""
        if self.ended:
            return
        size = _size(event)
        if len(self._events) >= _EVENTS or (self._events and self._bytes + size > _BYTES):
            self.end()
            return
        self._events.append(event)
        self._bytes += size
        self._wake.set()

    def end(self) -> None:
        """No further events come."""
        self.ended = True
        self._wake.set()

    def cut(self, *, expired: bool = False) -> None:
        """End at once, without the events that wait."""
        self._events.clear()
        self.expired = self.expired or expired
        self.end()

    async def take(self) -> list[Event]:
        """The events since the last call; empty at the end."""
        while not self._events and not self.ended:
            self._wake.clear()
            await self._wake.wait()
        found = list(self._events)
        self._events.clear()
        self._bytes = 0
        return found


class EventLog:
    """The events of one cache.

    Attributes:
        size: bytes of the events that are kept, approximately.
    """

    def __init__(self) -> None:
        self.size = 0
        self._events: deque[Event] = deque()
        self._floor = 0
        self._watchers: set[Watcher] = set()

    @property
    def is_watched(self) -> bool:
        """Whether a client watches."""
        return bool(self._watchers)

    def begin(self, version: int) -> None:
        """Forget all events: those since a version are the next ones."""
        self._events.clear()
        self.size = 0
        self._floor = version

    def append(self, event: Event) -> None:
        """Keep an event, and tell it to the clients."""
        self._events.append(event)
        self.size += _size(event)
        while len(self._events) > _EVENTS or self.size > _BYTES:
            oldest = self._events.popleft()
            self._floor = oldest.version
            self.size -= _size(oldest)
        self.tell(event)

    def append_differences(self, events: list[Event], version: int) -> None:
        """Keep events that a list has shown, and tell them to the clients.

        Args:
            events: in the order of their versions.
            version: of the list. Several events may have it; a client that has seen one of them cannot say which, and must not go on here.
        """
        for event in events:
            self.append(event)
        if sum(event.version == version for event in events) > 1:
            self.begin(version + 1)

    def tell(self, event: Event) -> None:
        """Tell the clients an event that is not kept."""
        for watcher in list(self._watchers):
            watcher.put(event)

    def watch(self, version: int | None) -> tuple[Watcher, list[Event]] | None:
        """Begin a watch.

        Args:
            version: of the last event that the client knows; None for no past events.

        Returns:
            What gets events from now on, and those since the version. None where they are not kept any more.
        """
        past: list[Event] = []
        if version is not None:
            if version < self._floor:
                return None
            past = [event for event in self._events if event.version > version]
        watcher = Watcher()
        self._watchers.add(watcher)
        return watcher, past

    def leave(self, watcher: Watcher) -> None:
        """The client is gone."""
        self._watchers.discard(watcher)

    def end(self) -> None:
        """End all watches. Clients begin them again."""
        for watcher in list(self._watchers):
            watcher.end()

    def expire(self) -> None:
        """End all watches: their clients have to list again."""
        for watcher in list(self._watchers):
            watcher.cut(expired=True)


def _size(event: Event) -> int:
    return len(event.item.raw) + OVERHEAD_BYTES if event.item is not None else OVERHEAD_BYTES
