"""Bounds for request heads of many bytes: `LargeHeads` for the time that they take, `HeadBytes` for the memory.

`LargeHeads`: request heads of many kilobytes are parsed in turn, a piece at a time, with breaks for the other connections.

A head of a megabyte may have thousands of fields, and nothing is known of its client before its end. So the connections whose heads are
large wait for turns here. A few have a place, which bounds the memory that unfinished heads take in all; the others wait for one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

PLACES: Final = 16
"""Large heads that are read at the same time."""
BREAK: Final = 2.0
"""How long the break behind a turn is, in turns."""
_SHORTEST_BREAK_SECONDS: Final = 0.0005
MAX_BYTES: Final = 64 * 1024 * 1024
"""Of incomplete heads in all; half of it of one client address."""


class LargeHead(Protocol):
    """A connection whose head is large."""

    def take_turn(self) -> None:
        """Parse a piece. Harmless where nothing waits to be parsed any more."""


class LargeHeads:
    """The turns of all connections of a server. Use one instance in one event loop."""

    def __init__(self, *, places: int | None = PLACES, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin empty.

        Args:
            places: heads that are read at the same time; None for no limit.
            clock: seconds; measures turns.
        """
        self._places = places
        self._clock = clock
        self._inside: set[LargeHead] = set()
        # Those without a place, in the order in which they came.
        self._outside: dict[LargeHead, None] = {}
        self._ready: deque[LargeHead] = deque()
        self._timer: asyncio.Handle | None = None

    def want(self, head: LargeHead) -> None:
        """A piece of a head waits: gives it a turn later. `leave` ends this."""
        if head in self._inside:
            self._ready.append(head)
        elif self._places is None or len(self._inside) < self._places:
            self._enter(head)
        else:
            self._outside[head] = None
            return
        self._arm(_SHORTEST_BREAK_SECONDS)

    def leave(self, head: LargeHead) -> None:
        """The head is complete, or the connection is lost. Harmless for one that is not here."""
        if self._outside:
            self._outside.pop(head, None)
        if head in self._inside:
            self._inside.discard(head)
            if self._outside:
                following = next(iter(self._outside))
                del self._outside[following]
                self._enter(following)
                self._arm(_SHORTEST_BREAK_SECONDS)

    def _enter(self, head: LargeHead) -> None:
        self._inside.add(head)
        self._ready.append(head)

    def _arm(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._turn)

    def _turn(self) -> None:
        begun = self._clock()
        head = self._ready.popleft()
        if head in self._inside:
            head.take_turn()
        self._timer = None
        if self._ready:
            self._arm(max(_SHORTEST_BREAK_SECONDS, (self._clock() - begun) * BREAK))


class HeadBytes:
    """Counts the bytes of incomplete heads, in all and for each client address."""

    def __init__(self, *, total: int = MAX_BYTES) -> None:
        """Begin with none.

        Args:
            total: bytes in all. One address may have half of them.
        """
        self._free = total
        self._share = total // 2
        self._taken: dict[str, int] = {}

    def take(self, client: str, count: int) -> bool:
        """Count received bytes; False where there is no room for them, and nothing is counted.

        Args:
            client: what clients are told apart by; empty for those that have no share, but all that is free.
            count: bytes.
        """
        taken = self._taken.get(client, 0) + count
        if count > self._free or (client and taken > self._share):
            return False
        self._free -= count
        self._taken[client] = taken
        return True

    def give_back(self, client: str, count: int) -> None:
        """The head is complete, or its connection ends.

        Args:
            client: as it was for `take`.
            count: all that was taken for the head.
        """
        self._free += count
        left = self._taken[client] - count
        if left:
            self._taken[client] = left
        else:
            del self._taken[client]
