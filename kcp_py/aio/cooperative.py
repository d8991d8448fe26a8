"""`TimeSlice` and `Throttle`: long work on the event loop that yields to other tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Self

SLICE_SECONDS: Final = 0.005
"""Work on the event loop after which a `TimeSlice` yields."""
THROTTLED_SLICE_SECONDS: Final = 0.001
"""Work on the event loop after which a `Throttle` closes."""
BREAK: Final = 1.5
"""The duration of a break of a `Throttle`, as a multiple of the slice before it."""
SCAN_BREAK: Final = 28.0
"""`BREAK` for reads of the whole store: they use 3.5 % of a core, and 4.5 % together with the turns of the tasks that wait."""
SCAN_ALLOWANCE_SECONDS: Final = 0.1
"""Reads of the whole store take this much work at the pace of other background work: small stores are read at once."""
_IDLE_SECONDS: Final = 0.02
"""After this time without a step, the next step begins a new slice."""


class TimeSlice:
    """Yields to other tasks whenever a slice of time is used up. Create one where the work begins."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_SECONDS

    async def yield_if_due(self) -> None:
        """Yield if the slice is used up, and begin a new one. Call between steps."""
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_SECONDS


class Throttle:
    """A gate for background work: open for a slice of time, then closed for longer than the slice took.

    Many tasks share a throttle and pass it before each of their steps. A slice that other tasks made longer is followed by a longer
    break, so the share of background work falls as the load rises. A request waits for one slice at most.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = THROTTLED_SLICE_SECONDS,
        pause: float = BREAK,
        allowance: float = 0.0,
    ) -> None:
        """Create an open gate.

        Args:
            clock: returns seconds.
            seconds: the duration of a slice.
            pause: the duration of a break, as a multiple of the slice before it.
            allowance: seconds of work in slices whose breaks are `BREAK` times as long, before `pause` applies.
        """
        self._clock = clock
        self._seconds = seconds
        self._pause = pause
        self._allowance = allowance
        self._begun = self._latest = clock()
        self._break: asyncio.Future[None] | None = None

    async def take(self) -> None:
        """Return at once while the gate is open, otherwise after the break. Call before each step."""
        while self._break is not None:
            await asyncio.shield(self._break)
        now = self._clock()
        if now - self._latest > _IDLE_SECONDS:
            self._begun = now
        self._latest = now
        if (spent := now - self._begun) >= self._seconds:
            loop = asyncio.get_running_loop()
            self._break = loop.create_future()
            allowed = self._allowance > 0
            self._allowance -= spent
            loop.call_later(spent * (BREAK if allowed else self._pause), self._open)
            await self.take()

    @classmethod
    def of_scans(cls) -> Self:
        """A gate for reads of the whole store."""
        return cls(pause=SCAN_BREAK, allowance=SCAN_ALLOWANCE_SECONDS)

    def _open(self) -> None:
        assert self._break is not None
        opening, self._break = self._break, None
        self._begun = self._latest = self._clock()
        opening.set_result(None)
