from __future__ import annotations

import asyncio

import pytest

from kcp_py.aio import Toggle

pytestmark = pytest.mark.anyio


async def test_both_directions():
    """Waiters of a direction are woken when it is reached, and at once if it already is."""
    toggle = Toggle()
    await toggle.wait_for(on=False)
    waiters = [asyncio.create_task(toggle.wait_for(on=True)) for _ in range(2)]
    await asyncio.sleep(0)
    toggle.turn(on=True)
    toggle.turn(on=True)
    await asyncio.gather(*waiters)
    assert toggle
    off = asyncio.create_task(toggle.wait_for(on=False))
    await asyncio.sleep(0)
    toggle.turn(on=False)
    await off
    assert not toggle


async def test_short_moments_are_not_missed():
    """A waiter is woken even if the direction is left again before it runs."""
    toggle = Toggle()
    waiter = asyncio.create_task(toggle.wait_for(on=True))
    await asyncio.sleep(0)
    toggle.turn(on=True)
    toggle.turn(on=False)
    await waiter


async def test_cancelled_waiters_are_forgotten():
    """Waiting can be given up."""
    toggle = Toggle(on=True)
    waiter = asyncio.create_task(toggle.wait_for(on=False))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not toggle._waiters[False]
    toggle.turn(on=False)
