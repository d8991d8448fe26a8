"""The clock of the machine and its waits."""

import asyncio
import time

import pytest

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock

pytestmark = pytest.mark.anyio


async def test_the_clock_of_the_machine_costs_nothing() -> None:
    """Readers call the functions of the system themselves."""
    assert SYSTEM_CLOCK.time is time.time
    assert SYSTEM_CLOCK.monotonic is time.monotonic


async def test_a_wait_ends_with_its_event() -> None:
    """The time does not have to pass."""
    event = asyncio.Event()
    waiting = asyncio.ensure_future(SYSTEM_CLOCK.wait(event, 3600))
    asyncio.get_running_loop().call_soon(event.set)
    assert await waiting
    assert await SYSTEM_CLOCK.wait(event, 3600)


async def test_a_wait_ends_with_its_time() -> None:
    """The event is not set then."""
    due = []

    class Handle:
        def cancel(self) -> None:
            """Nothing to do."""

    def schedule(seconds: float, function: object) -> Handle:
        due.append(seconds)
        asyncio.get_running_loop().call_soon(function)  # type: ignore[arg-type]
        return Handle()

    assert not await Clock(call_later=schedule).wait(asyncio.Event(), 60)
    assert due == [60]
