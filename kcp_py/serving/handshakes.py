"""`HandshakeQueue`: TLS handshakes begin one after the other, in turn between client addresses, and leave time for open connections.

A handshake costs more than most requests, and its client is not authenticated yet. Without a pace, clients that connect again and again
have as many handshakes in one turn of the event loop as there are clients, and everyone else waits for all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

BUSY: Final = 0.6
"""The part of the time that the event loop may be at work while handshakes wait. What new connections ask for is part of it."""
LONGEST_BREAK_SECONDS: Final = 0.01
"""After which the next handshake begins however busy the event loop is, so that others' load does not lock new clients out."""


class HandshakeQueue:
    """The handshakes of one event loop, which has to run in the thread that makes this object."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time) -> None:
        """Begin with none.

        Args:
            clock: seconds.
            spent: seconds of processor time of the thread.
        """
        self._clock = clock
        self._spent = spent
        self._last = (clock() - LONGEST_BREAK_SECONDS, spent())
        # By client, in the order of their turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._timer: asyncio.Handle | None = None

    @property
    def waiting(self) -> int:
        """How many handshakes wait."""
        return sum(map(len, self._waiting.values()))

    async def turn(self, client: str) -> None:
        """Return when a handshake may begin.

        Args:
            client: identifies the client. Clients that wait get one turn each.
        """
        if not self._waiting and not self._left():
            self._last = (self._clock(), self._spent())
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        if self._timer is None:
            self._arm()
        await turn

    def _left(self) -> float:
        """Seconds until the next turn; 0 where it is due."""
        begun, spent = self._last
        passed = self._clock() - begun
        return max(0.0, min((self._spent() - spent) / BUSY, LONGEST_BREAK_SECONDS) - passed)

    def _arm(self) -> None:
        # At least one turn of the event loop lies between two handshakes.
        self._timer = asyncio.get_running_loop().call_later(self._left(), self._next)

    def _next(self) -> None:
        self._timer = None
        if not self._left() and self._give():
            self._last = (self._clock(), self._spent())
        if self._waiting:
            self._arm()

    def _give(self) -> bool:
        """Give a turn to the client that has waited longest for one; whether there was any."""
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            del self._waiting[client]
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return True
        return False
