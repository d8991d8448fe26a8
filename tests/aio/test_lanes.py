"""Work in lanes: turns, bounds of pieces that wait, and the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from kcp_py.aio.lanes import Lanes

pytestmark = pytest.mark.anyio


class Work:
    """Pieces are lanes and numbers. Those of slow lanes wait until they are let go."""

    def __init__(self, *slow: str) -> None:
        self.slow = set(slow)
        self.gate = asyncio.Event()
        self.begun: list[str] = []
        self.done: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, piece: str) -> None:
        self.begun.append(piece)
        if piece[0] in self.slow:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(piece)
                raise
        self.done.append(piece)


def fill(lanes: Lanes[str], *pieces: str) -> None:
    for piece in pieces:
        lanes.add(piece[0], piece)


async def test_lanes_take_turns() -> None:
    """A lane with many pieces delays another lane by one piece, and the pieces of a lane keep their order."""
    work = Work()
    async with Lanes(work) as lanes:
        fill(lanes, "a1", "a2", "a3", "b1", "c1", "b2")
        await lanes.begun()
    assert work.done == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_work_that_waits_holds_up_its_lane_alone() -> None:
    """Two pieces of a slow lane wait at a time. Pieces of other lanes are done meanwhile, also those that are added later."""
    work = Work("s")
    async with Lanes(work, per_lane=2) as lanes:
        fill(lanes, *(f"s{number}" for number in range(5)), "a1", "a2")
        await lanes.begun()
        assert (work.done, work.begun) == (["a1", "a2"], ["s0", "a1", "s1", "a2"])
        fill(lanes, "b1", "s5")
        await lanes.begun()
        assert work.done == ["a1", "a2", "b1"]
        work.gate.set()
    assert sorted(work.done[3:]) == [f"s{number}" for number in range(6)]


async def test_the_places_of_all_lanes() -> None:
    """When all places are taken, further pieces begin only after one is free."""
    work = Work("s", "t", "u")
    async with Lanes(work, per_lane=2, most=3) as lanes:
        fill(lanes, "s1", "s2", "s3", "t1", "t2", "u1", "a1")
        await lanes.begun()
        assert work.begun == ["s1", "t1", "u1"]
        assert not work.done
        work.gate.set()
    assert sorted(work.done) == ["a1", "s1", "s2", "s3", "t1", "t2", "u1"]


async def test_the_end_cancels_work_that_waits() -> None:
    """A task that is cancelled within the context leaves no work behind."""
    work = Work("s")
    begun = asyncio.Event()

    async def run() -> None:
        async with Lanes(work, per_lane=1) as lanes:
            fill(lanes, "s1", "s2", "a1")
            await lanes.begun()
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await begun.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert (work.cancelled, work.done) == (["s1"], ["a1"])
