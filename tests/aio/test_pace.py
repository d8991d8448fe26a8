"""Work in the background at its pace."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.aio.pace import BREAK, Pace

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_steps_of_a_slice_do_not_wait_and_the_next_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a slice lasts steps begin at once; after it all wait for a break that is as much longer as the slice was."""
    clock = Clock()
    pace = Pace(clock=clock, seconds=0.002)
    delays: list[float] = []
    call_later = asyncio.get_running_loop().call_later

    def at_once(delay: float, callback: object) -> asyncio.TimerHandle:
        delays.append(delay)
        return call_later(0, callback)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", at_once)
    for _ in range(3):
        await pace.take()
        clock.now += 0.0015
    assert delays == [pytest.approx(0.003 * BREAK)]
    clock.now += 0.003
    await asyncio.gather(pace.take(), pace.take())
    assert delays[1:] == [pytest.approx(0.0045 * BREAK)]


async def test_a_rest_is_not_work() -> None:
    """Steps that come now and then never wait."""
    clock = Clock()
    pace = Pace(clock=clock, seconds=0.002)
    for _ in range(10):
        clock.now += 1
        step = asyncio.ensure_future(pace.take())
        await asyncio.sleep(0)
        assert step.done()
