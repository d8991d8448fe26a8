"""`Alarms`: one timer of the event loop for many sleepers."""

from __future__ import annotations

import asyncio
import heapq
import math
from typing import Final, Protocol

_FINEST: Final = -4
"""The shortest step is 2 ** -4 seconds."""
_STEPS: Final = 9
"""Between two powers of two of seconds there are 2 ** (9 - 1) steps."""
_LONGEST_SECONDS: Final = 3600.0
"""Event loops count milliseconds in integers of limited size, so no timer is set further ahead."""


class Sleeper(Protocol):
    """An object that an alarm wakes."""

    def wake(self) -> None:
        """Called at the time of the alarm. Must not raise."""


class Alarms:
    """Wakes sleepers at their times, which are rounded up by less than 1/16 s, or by less than 0.4 % of the delay.

    A timer of the event loop takes 550 bytes, and a sleeper that shares its time with others takes 50. Rounding limits the number of
    different times to a few thousand, independent of the number of sleepers. Use one instance in one event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Create alarms without sleepers.

        Args:
            loop: the event loop, for tests; by default the one that runs when the first alarm is set.
        """
        self._loop = loop
        self._sleepers: dict[float, set[Sleeper]] = {}
        # The keys of `_sleepers` as a heap, the next time first.
        self._times: list[float] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def set(self, when: float, sleeper: Sleeper) -> float:
        """Wake `sleeper` once when the clock of the event loop reaches `when` (seconds).

        Returns:
            The rounded time, which is the argument of `cancel`.
        """
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        step = math.ldexp(1.0, max(math.frexp(when - loop.time())[1] - _STEPS, _FINEST))
        time = math.ceil(when / step) * step
        sleepers = self._sleepers.get(time)
        if sleepers is None:
            sleepers = self._sleepers[time] = set()
            heapq.heappush(self._times, time)
            if self._times[0] == time:
                self._arm(loop)
        if sleeper not in sleepers:
            sleepers.add(sleeper)
            self._count += 1
        return time

    def cancel(self, time: float, sleeper: Sleeper) -> None:
        """Cancel the alarm that `set` rounded to `time`. It has no effect if the alarm has gone off."""
        sleepers = self._sleepers.get(time)
        if sleepers is None or sleeper not in sleepers:
            return
        # The time remains in the heap without sleepers, so that repeated `set` and `cancel` do not add it several times.
        sleepers.discard(sleeper)
        self._count -= 1
        if not self._count:
            self._sleepers.clear()
            self._times.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(min(self._times[0], loop.time() + _LONGEST_SECONDS), self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._times and self._times[0] <= now:
            sleepers = self._sleepers.pop(heapq.heappop(self._times))
            self._count -= len(sleepers)
            for sleeper in sleepers:
                sleeper.wake()
        if self._count:
            self._arm(loop)
        else:
            self._sleepers.clear()
            self._times.clear()
