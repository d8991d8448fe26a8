"""The position of the watch, and the reads that wait for it."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.watched.position import Position

pytestmark = pytest.mark.anyio


class _Requests:
    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def __call__(self) -> None:
        self.seen.set()


async def test_reads_wait_until_the_watch_has_come_so_far() -> None:
    """Each read goes on with the event that it waits for, and not before."""
    position = Position(request_progress=_Requests(), patience=30)
    position.begin(5)
    assert await position.reached(5)
    first, second = asyncio.ensure_future(position.reached(6)), asyncio.ensure_future(position.reached(8))
    await asyncio.sleep(0)
    position.advance(7)
    assert await first
    assert not second.done()
    position.advance(8)
    assert await second


async def test_progress_is_requested_for_waiting_reads() -> None:
    """A watch without events is asked how far it is, so that a write outside of its keys does not hold reads up."""
    requests = _Requests()
    position = Position(request_progress=requests, patience=30)
    position.begin(1)
    waiting = asyncio.ensure_future(position.reached(2))
    await asyncio.wait_for(requests.seen.wait(), 30)
    position.advance(2)
    assert await waiting


async def test_impatient_reads_make_the_watch_lag() -> None:
    """After the time of a read ran out no further one waits, until the watch has come as far as that read wanted."""
    position = Position(request_progress=_Requests(), patience=0.01)
    position.begin(1)
    assert not await position.reached(9)
    assert position.lagging
    assert not await position.reached(3)
    position.advance(8)
    assert position.lagging
    assert await position.reached(8)
    position.advance(9)
    assert not position.lagging


async def test_a_lost_watch_releases_its_reads() -> None:
    """No revision counts as reached without a watch; a new watch begins anywhere."""
    position = Position(request_progress=_Requests(), patience=30)
    assert not await position.reached(0)
    position.begin(10)
    waiting = asyncio.ensure_future(position.reached(11))
    await asyncio.sleep(0)
    position.lose()
    assert not await waiting
    assert not await position.reached(3)
    position.begin(2)
    assert await position.reached(2)


async def test_a_cancelled_read_is_forgotten() -> None:
    """A read that was cancelled neither disturbs the others nor makes the watch lag."""
    position = Position(request_progress=_Requests(), patience=30)
    position.begin(1)
    gone, stays = (asyncio.ensure_future(position.reached(2)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    position.advance(2)
    assert await stays
    assert not position.lagging
