"""`FakeClock`: a clock that a test sets forward."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from time import monotonic as system_monotonic
from time import time as system_time
from typing import Final

from kcp_py.aio.clock import Clock, Timer

_STEPS: Final = 1000
"""Times at which `advance` stops to let the woken code run. Beyond them, it goes to the end at once."""
_END: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_TURNS: Final = 5
"""Turns of the event loop at each stop: enough for code that waits again to say until when."""


class _Timer:
    __slots__ = ("function",)

    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        self.function = None

    def run(self) -> None:
        if self.function is not None:
            self.function()


class FakeClock(Clock):
    """A `Clock` that `advance` sets forward.

    Between two advances it goes on as the machine's clock does, so that retries and polls of a server behave as usual; a frozen clock
    stands still. It belongs to one event loop.
    """

    __slots__ = ("_armed", "_frozen_at", "_handle", "_offset", "_order", "_origin", "_past", "_settling", "_timers")

    def __init__(self, now: datetime | float | None = None, *, frozen: bool = False) -> None:
        """Start a clock.

        Args:
            now: the time of day at the start, as Unix seconds or a datetime with a time zone; None for the machine's.
            frozen: whether it stands still between advances.
        """
        super().__init__(time=self._time, monotonic=self._monotonic, sleep=self._sleep, call_later=self._call_later)
        if isinstance(now, datetime):
            if now.tzinfo is None:
                raise ValueError("the datetime needs a time zone")
            now = now.timestamp()
        start = system_time() if now is None else float(now)
        self._offset = 0.0
        self._frozen_at = system_monotonic() if frozen else None
        self._origin = start - self._monotonic()
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._past: list[tuple[float, int, _Timer]] = []
        """Those at which `advance` does not stop."""
        self._handle: asyncio.TimerHandle | None = None
        self._armed = 0.0
        self._settling: list[Callable[[], Awaitable[None]]] = []

    @property
    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.fromtimestamp(self._time(), UTC)

    @property
    def frozen(self) -> bool:
        """Whether it stands still between advances."""
        return self._frozen_at is not None

    def attach(self, settle: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Have `settle` wait for a function, too: that of a control plane, until it has done all due work. Returns what detaches it."""
        self._settling.append(settle)
        return lambda: self._settling.remove(settle)

    async def settle(self) -> None:
        """Wait until the work that is due has been done by the controllers of the servers that have this clock. No time passes by that.

        Raises:
            TimeoutError: they were not done after 30 seconds of the machine.
        """
        await self._let_run()
        for wait in tuple(self._settling):
            await wait()

    async def advance(self, seconds: float | timedelta, *, settle: bool = False) -> None:
        """Let time pass. Whatever becomes due on the way runs in its order, each at its time.

        Code that was woken has had a few turns of the event loop when this returns; work that takes longer, such as writes to a disk, may
        still be under way. Wait for its outcome, or let it `settle`.

        Args:
            seconds: how much time.
            settle: `settle` before, and whenever something has become due: a controller that asks to be called again every 30 seconds is
                called ten times in five minutes, and each call ends before the time goes on.

        Raises:
            ValueError: the time is negative: `monotonic` never goes back. Or it ends after the year 9999, the last one of timestamps.
            TimeoutError: as `settle`.
        """
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        if not 0 <= seconds < float("inf"):
            raise ValueError("a clock goes forward only, by a finite time")
        if self._time() + seconds > _END:
            raise ValueError("a clock ends with the year 9999")
        pause = self.settle if settle else self._let_run
        await pause()
        target = self._monotonic() + seconds
        for _ in range(_STEPS):
            self._drop_cancelled()
            if not self._timers or self._timers[0][0] > target:
                break
            self._set(self._timers[0][0])
            self._run_due()
            await pause()
        self._set(target)
        self._run_due()
        await pause()

    async def advance_to(self, when: datetime | float, *, settle: bool = False) -> None:
        """Let time pass until a time of day. Raises: as `advance`."""
        await self.advance((when.timestamp() if isinstance(when, datetime) else when) - self._time(), settle=settle)

    def _monotonic(self) -> float:
        return (system_monotonic() if self._frozen_at is None else self._frozen_at) + self._offset

    def _time(self) -> float:
        return self._origin + self._monotonic()

    def _set(self, monotonic: float) -> None:
        self._offset += max(0.0, monotonic - self._monotonic())

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        timer = self._call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def _call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self._add(self._timers, seconds, function)

    def call_when_past(self, seconds: float, function: Callable[[], None]) -> Timer:
        """See `Clock.call_when_past`."""
        return self._add(self._past, seconds, function)

    def _add(self, timers: list[tuple[float, int, _Timer]], seconds: float, function: Callable[[], None]) -> Timer:
        timer = _Timer(function)
        heapq.heappush(timers, (self._monotonic() + max(0.0, seconds), next(self._order), timer))
        self._arm()
        return timer

    def _drop_cancelled(self) -> None:
        for timers in (self._timers, self._past):
            while timers and timers[0][2].function is None:
                heapq.heappop(timers)

    def _run_due(self) -> None:
        now = self._monotonic()
        for timers in (self._past, self._timers):
            while timers and timers[0][0] <= now:
                # As an event loop does: what fails is reported, and the others run.
                asyncio.get_running_loop().call_soon(heapq.heappop(timers)[2].run)
        self._arm()

    def _arm(self) -> None:
        """Have the first timer run at its time, unless the clock is advanced before; a frozen clock is only advanced."""
        self._drop_cancelled()
        waiting = [timers[0][0] for timers in (self._timers, self._past) if timers]
        due = min(waiting) - self._offset if waiting else 0.0
        if self._handle is not None:
            if due == self._armed:
                return
            self._handle.cancel()
            self._handle = None
        if waiting and self._frozen_at is None:
            self._armed = due
            self._handle = asyncio.get_running_loop().call_later(max(0.0, due - system_monotonic()), self._ring)

    def _ring(self) -> None:
        self._handle = None
        self._run_due()

    async def _let_run(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
