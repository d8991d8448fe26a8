"""Alarms go off once, at their time or a little later, with one timer for all."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.aio.alarms import Alarms


class Handle:
    """A timer of the loop below."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """A loop whose time passes when it is told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Handle]] = []
        self.made = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> Handle:
        handle = Handle(lambda: call(*arguments))
        self.made += 1
        heapq.heappush(self._timers, (when, self.made, handle))
        return handle

    @property
    def pending(self) -> int:
        return sum(handle.call is not None for _, _, handle in self._timers)

    def pass_until(self, end: float) -> None:
        while self._timers and self._timers[0][0] <= end:
            when, _, handle = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if handle.call is not None:
                handle.call()
        self.now = end


class Sleeper:
    """Notes when it was woken."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.woken: list[float] = []

    def wake(self) -> None:
        self.woken.append(self._loop.now)


def alarms_on(loop: Loop) -> Alarms:
    return Alarms(cast("asyncio.AbstractEventLoop", loop))


@given(st.lists(st.floats(min_value=-1, max_value=20_000), min_size=1, max_size=30), st.floats(min_value=0, max_value=1e6))
def test_every_sleeper_is_woken_once_and_neither_early_nor_late(delays: list[float], start: float) -> None:
    """Times are rounded up by less than a sixteenth of a second or 0.4 % of what lies ahead."""
    loop = Loop(start)
    alarms = alarms_on(loop)
    sleepers = [(start + delay, delay, Sleeper(loop)) for delay in delays]
    for when, _, sleeper in sleepers:
        alarms.set(when, sleeper)
    assert len(alarms) == len(delays)
    loop.pass_until(start + 30_000)
    for when, delay, sleeper in sleepers:
        (woken,) = sleeper.woken
        assert when <= woken <= max(when, start) + max(1 / 16, delay * 0.004)
    assert (len(alarms), loop.pending) == (0, 0)


def test_what_is_cancelled_stays_silent() -> None:
    """Only the alarm that is taken back is lost, and with the last one the timer goes; taking back twice is harmless."""
    loop = Loop()
    alarms = alarms_on(loop)
    first, second = Sleeper(loop), Sleeper(loop)
    time = alarms.set(1060, first)
    assert alarms.set(1060, second) == time
    for _ in range(2):
        alarms.cancel(time, first)
    assert len(alarms) == 1
    loop.pass_until(1100)
    assert (first.woken, second.woken) == ([], [time])
    alarms.cancel(time, second)
    alarms.cancel(alarms.set(5000, first), first)
    assert (len(alarms), loop.pending) == (0, 0)


def test_many_sleepers_need_few_times() -> None:
    """Many sleepers take a bounded number of rounded times and one timer."""
    loop = Loop()
    alarms = alarms_on(loop)
    alarms.set(9000, Sleeper(loop))
    for number in range(20_000):
        sleeper = Sleeper(loop)
        alarms.cancel(alarms.set(loop.now + 1800 + number * 0.09, sleeper), sleeper)
    assert (len(alarms), loop.pending) == (1, 1)
    assert len(alarms._times) == len(alarms._sleepers) <= 513


def test_a_sleeper_may_set_its_next_alarm_while_it_is_woken() -> None:
    """An alarm that is set while others go off goes off at its own time."""
    loop = Loop()
    alarms = alarms_on(loop)

    class Again(Sleeper):
        def wake(self) -> None:
            super().wake()
            if len(self.woken) < 3:
                alarms.set(self._loop.now + 1, self)

    sleeper = Again(loop)
    alarms.set(1001, sleeper)
    loop.pass_until(1010)
    assert sleeper.woken == [1001, 1002, 1003]
    assert loop.pending == 0


@pytest.mark.parametrize("when", [1e19, 1e300])
def test_times_beyond_all_clocks_are_waited_for(when: float) -> None:
    """A time beyond the range of the event loop's timers does not fail."""
    loop = Loop()
    alarms = alarms_on(loop)
    sleeper = Sleeper(loop)
    alarms.set(when, sleeper)
    loop.pass_until(10_000)
    assert (sleeper.woken, len(alarms), loop.pending) == ([], 1, 1)
