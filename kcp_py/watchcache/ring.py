"""`Ring`: the latest events of the whole store, bounded by number and by bytes."""

from __future__ import annotations

from collections import deque

from kcp_py.watchcache.event import ObjectEvent


class Ring:
    """Events in revision order. New events replace the oldest ones.

    The ring contains every event *after* the revision `floor`.
    """

    def __init__(self, *, floor: int, max_events: int, max_bytes: int) -> None:
        self.floor = floor
        self._events: deque[ObjectEvent] = deque()
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: ObjectEvent) -> None:
        """Add the next event and drop the oldest revisions beyond the bounds."""
        events = self._events
        events.append(event)
        self._bytes += event.size
        while len(events) > self._max_events or self._bytes > self._max_bytes:
            oldest = events.popleft()
            self._bytes -= oldest.size
            self.floor = oldest.mod_revision
        # A revision that was dropped in part is incomplete; `floor` already excludes it.

    def after(self, revision: int) -> list[ObjectEvent] | None:
        """All events after `revision`, oldest first, or None if some of them were dropped."""
        if revision < self.floor:
            return None
        found: list[ObjectEvent] = []
        for event in reversed(self._events):
            if event.mod_revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found
