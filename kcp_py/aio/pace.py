"""`Pace`: work in the background that leaves the event loop to others for longer than it takes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.001
"""For which steps begin before there is a break."""
BREAK: Final = 1.5
"""How long a break is, in slices."""
_REST_SECONDS: Final = 0.02
"""Without a step for so long, the next one begins a slice."""


class Pace:
    """A gate that many tasks pass before each of their steps: open for a slice of time, then closed for longer than the slice has taken.

    A slice that others have made longer makes a longer break. So the more there is to do, the less the background takes, and what comes
    first at any time waits for a slice at the most.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, seconds: float = SLICE_SECONDS) -> None:
        """Make an open gate.

        Args:
            clock: seconds.
            seconds: of a slice.
        """
        self._clock = clock
        self._seconds = seconds
        self._begun = self._latest = clock()
        self._break: asyncio.Future[None] | None = None

    async def take(self) -> None:
        """Call before each step: returns at once, or after the break."""
        while self._break is not None:
            await asyncio.shield(self._break)
        now = self._clock()
        if now - self._latest > _REST_SECONDS:
            self._begun = now
        self._latest = now
        if (spent := now - self._begun) >= self._seconds:
            loop = asyncio.get_running_loop()
            self._break = loop.create_future()
            loop.call_later(spent * BREAK, self._open)
            await self.take()

    def _open(self) -> None:
        assert self._break is not None
        opening, self._break = self._break, None
        self._begun = self._latest = self._clock()
        opening.set_result(None)
