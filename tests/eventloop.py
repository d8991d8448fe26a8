"""Waiting for an event loop that has nothing left to do."""

from __future__ import annotations

import asyncio
from typing import Any

MOST_TURNS = 1_000_000


async def until_idle() -> None:
    """Return when every other task of the running loop waits: for a timer, a thread, a socket, or for the test.

    This shows that something has not happened, which no event can, and depends neither on a number of turns nor on time.
    Wait for the effect of a timer, a thread or a socket instead, where one takes part.
    """
    loop: Any = asyncio.get_running_loop()
    for _ in range(MOST_TURNS):
        # The callbacks that are ready, without the step of this task. Only loops of the standard library have the attribute.
        if not loop._ready:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"the event loop is not idle after {MOST_TURNS:,} turns")
