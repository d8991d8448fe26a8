"""Time slices and throttles: work on the event loop that yields."""

from __future__ import annotations

import asyncio
import time

import pytest

from kcp_py.aio.cooperative import BREAK, SCAN_BREAK, Throttle, TimeSlice

pytestmark = pytest.mark.anyio


async def test_a_time_slice_yields_when_it_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work continues until its slice is over, then other tasks run, and the work gets another slice."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    time_slice = TimeSlice()
    others: list[float] = []
    waiting = asyncio.ensure_future(_note(others))
    now = 0.004
    await time_slice.yield_if_due()
    assert others == []
    now = 0.006
    await time_slice.yield_if_due()
    await waiting
    assert others == [0.006]
    now = 0.010
    waiting = asyncio.ensure_future(_note(others))
    await time_slice.yield_if_due()
    assert others == [0.006]
    await waiting


async def _note(others: list[float]) -> None:
    others.append(time.monotonic())


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_throttle_delays_the_first_step_after_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps within a slice begin at once; steps after it wait for a break in proportion to the slice."""
    clock = Clock()
    throttle = Throttle(clock=clock, seconds=0.002)
    delays: list[float] = []
    call_later = asyncio.get_running_loop().call_later

    def at_once(delay: float, callback: object) -> asyncio.TimerHandle:
        delays.append(delay)
        return call_later(0, callback)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", at_once)
    for _ in range(3):
        await throttle.take()
        clock.now += 0.0015
    assert delays == [pytest.approx(0.003 * BREAK)]
    clock.now += 0.003
    await asyncio.gather(throttle.take(), throttle.take())
    assert delays[1:] == [pytest.approx(0.0045 * BREAK)]


async def test_a_throttle_does_not_count_idle_time() -> None:
    """Steps with pauses in between never wait."""
    clock = Clock()
    throttle = Throttle(clock=clock, seconds=0.002)
    for _ in range(10):
        clock.now += 1
        step = asyncio.ensure_future(throttle.take())
        await asyncio.sleep(0)
        assert step.done()


async def test_a_throttle_of_scans_uses_less_after_its_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first breaks are short, and those after the allowance are long."""
    clock = Clock()
    throttle = Throttle(clock=clock, seconds=0.002, pause=SCAN_BREAK, allowance=0.005)
    delays: list[float] = []
    call_later = asyncio.get_running_loop().call_later

    def at_once(delay: float, callback: object) -> asyncio.TimerHandle:
        delays.append(delay)
        return call_later(0, callback)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", at_once)
    for _ in range(4):
        await throttle.take()
        clock.now += 0.004
    assert delays == [pytest.approx(0.004 * BREAK), pytest.approx(0.004 * BREAK), pytest.approx(0.004 * SCAN_BREAK)]
