"""One timer for changing deadlines, on a clock of the test."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kcp_py.serving.deadlinetimer import NEVER, DeadlineTimer


class Handle:
    """A timer of `Loop`."""

    def __init__(self, at: float, run: Any) -> None:
        self.at = at
        self.run = run
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop whose clock a test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Any, *args: Any) -> Handle:
        handle = Handle(self.now + delay, lambda: callback(*args))
        self.handles.append(handle)
        return handle


@pytest.mark.parametrize(
    ("deadlines", "at", "made"),
    [
        pytest.param([105.0], 105.0, 1, id="one deadline"),
        pytest.param([105.0, 110.0], 105.0, 1, id="a later one keeps the timer"),
        pytest.param([110.0, 105.0], 105.0, 2, id="an earlier one replaces it"),
    ],
)
def test_the_earliest_deadline_counts(deadlines: list[float], at: float, made: int) -> None:
    """One timer of the event loop runs, and with it the callback, once."""
    loop, calls = Loop(), []
    timer = DeadlineTimer(cast("Any", loop))
    for deadline in deadlines:
        timer.set(deadline, lambda: calls.append(timer.at))
    running = [handle for handle in loop.handles if not handle.cancelled]
    assert (timer.at, [handle.at for handle in running], len(loop.handles)) == (at, [at], made)
    running[0].run()
    assert (calls, timer.at) == ([NEVER], NEVER)


def test_a_stopped_timer_can_be_set_again() -> None:
    """It is cancelled, and takes any deadline."""
    loop = Loop()
    timer = DeadlineTimer(cast("Any", loop))
    timer.set(105.0, loop.handles.clear)
    timer.stop()
    assert (timer.at, loop.handles[0].cancelled) == (NEVER, True)
    timer.set(110.0, loop.handles.clear)
    assert (timer.at, loop.handles[1].cancelled) == (110.0, False)
