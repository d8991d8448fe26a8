"""Bounds for requests that are costly to parse: `ParsingQueue` for the time that they take, `HeadBudget` for the memory.

A head of a megabyte may have thousands of fields, and its client is not authenticated before its end. So it is parsed in slices, and the
connections that have such heads wait for turns, with breaks for all others. A few connections are served at the same time, which bounds the
memory that unfinished heads take in all.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

PLACES: Final = 16
"""Large heads that are parsed at the same time."""
SHARE: Final = 4
"""One client address has at most this fraction of the places: one in four."""
BREAK: Final = 2.0
"""The length of the break after a turn, as a multiple of the turn."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of incomplete heads in all; half of it for one client address."""

_SHORTEST_BREAK_SECONDS: Final = 0.0005


class QueuedConnection(Protocol):
    """A connection whose received bytes wait for a turn."""

    def take_turn(self) -> None:
        """Parse a slice. Does nothing where no bytes wait any more."""


class ParsingQueue:
    """The connections of a server that wait for turns. Use one instance in one event loop."""

    def __init__(
        self,
        *,
        places: int | None = PLACES,
        clock: Callable[[], float] = time.perf_counter,
        call_later: Callable[[float, Callable[[], None]], asyncio.Handle] | None = None,
    ) -> None:
        """Begin empty.

        Args:
            places: connections that take turns at the same time; None for no limit.
            clock: seconds; measures turns.
            call_later: calls a function after so many seconds; that of the running event loop by default.
        """
        self._places = places
        self._clock = clock
        self._call_later = call_later
        # The connections with a place, with their client addresses, and how many places each address has.
        self._entered: dict[QueuedConnection, str] = {}
        self._taken: dict[str, int] = {}
        # The connections without a place, in the order in which they came.
        self._waiting: dict[QueuedConnection, str] = {}
        self._ready: deque[QueuedConnection] = deque()
        self._timer: asyncio.Handle | None = None

    def want(self, connection: QueuedConnection, client: str = "") -> None:
        """Give the connection a turn later. `leave` ends this.

        Args:
            connection: whose bytes wait.
            client: the address that is counted, of which `SHARE` of the places may be taken; empty for clients that may take all.
        """
        if connection in self._entered:
            self._ready.append(connection)
        elif self._has_place(client):
            self._enter(connection, client)
        else:
            self._waiting[connection] = client
            return
        self._arm(_SHORTEST_BREAK_SECONDS)

    def leave(self, connection: QueuedConnection) -> None:
        """The connection needs no more turns. Does nothing for one that is not here."""
        if self._waiting:
            self._waiting.pop(connection, None)
        client = self._entered.pop(connection, None)
        if client is None:
            return
        left = self._taken[client] - 1
        if left:
            self._taken[client] = left
        else:
            del self._taken[client]
        following = next((one for one, address in self._waiting.items() if self._has_place(address)), None)
        if following is not None:
            self._enter(following, self._waiting.pop(following))
            self._arm(_SHORTEST_BREAK_SECONDS)

    def _has_place(self, client: str) -> bool:
        if self._places is None:
            return True
        share = max(1, self._places // SHARE) if client else self._places
        return len(self._entered) < self._places and self._taken.get(client, 0) < share

    def _enter(self, connection: QueuedConnection, client: str) -> None:
        self._entered[connection] = client
        self._taken[client] = self._taken.get(client, 0) + 1
        self._ready.append(connection)

    def _arm(self, seconds: float) -> None:
        if self._timer is None:
            call_later = self._call_later or asyncio.get_running_loop().call_later
            self._timer = call_later(seconds, self._next_turn)

    def _next_turn(self) -> None:
        begun = self._clock()
        connection = self._ready.popleft()
        try:
            if connection in self._entered:
                connection.take_turn()
        finally:
            self._timer = None
            if self._ready:
                self._arm(max(_SHORTEST_BREAK_SECONDS, (self._clock() - begun) * BREAK))


class HeadBudget:
    """Bounds the bytes of incomplete heads, in all and for each client address."""

    def __init__(self, *, total: int = MAX_BYTES) -> None:
        """Begin with none.

        Args:
            total: bytes in all. One address may have half of them.
        """
        self._free = total
        self._share = total // 2
        self._taken: dict[str, int] = {}

    def acquire(self, client: str, count: int) -> bool:
        """Count received bytes. Returns False, and counts nothing, where there is no room for them.

        Args:
            client: the address that is counted; empty for clients that may have all that is free.
            count: bytes.
        """
        taken = self._taken.get(client, 0) + count
        if count > self._free or (client and taken > self._share):
            return False
        self._free -= count
        self._taken[client] = taken
        return True

    def release(self, client: str, count: int) -> None:
        """The head is complete, or its connection has ended.

        Args:
            client: as it was for `acquire`.
            count: all that was acquired for the head.
        """
        self._free += count
        left = self._taken[client] - count
        if left:
            self._taken[client] = left
        else:
            del self._taken[client]
