"""`Alarms`: one timer of the event loop for all who want to be woken at some time."""

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
"""Loops count milliseconds in integers of their library: no timer of theirs is set further ahead."""


class Sleeper(Protocol):
    """Who can be woken."""

    def wake(self) -> None:
        """Called when the time has come. Must not raise."""


class Alarms:
    """Wakes sleepers at their times, rounded up: by less than 1/16 s, or by less than 0.4 % of what lies ahead.

    A timer of the loop costs 550 bytes; a place among those who are woken at the same time costs 50. As the times of many fall together,
    there are a few thousand of them at most, however many the sleepers are. Use one instance in one event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin empty.

        Args:
            loop: for tests; the one that runs when the first alarm is set otherwise.
        """
        self._loop = loop
        self._sleepers: dict[float, set[Sleeper]] = {}
        # The keys of `_sleepers`, the next first.
        self._times: list[float] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def set(self, when: float, sleeper: Sleeper) -> float:
        """Wake `sleeper` once when the loop's clock has come to `when` (seconds).

        Returns:
            The time that it was rounded to, which `cancel` takes.
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
        """Take back the alarm that `set` rounded to `time`; harmless where it has gone off."""
        sleepers = self._sleepers.get(time)
        if sleepers is None or sleeper not in sleepers:
            return
        # The time stays, with nobody to wake: it must not be remembered again and again while sleepers come and go.
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
