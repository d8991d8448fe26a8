"""What tests know of the event loop that they run on."""

from __future__ import annotations

import asyncio
from typing import Any

MOST_TURNS = 1_000_000


async def until_idle() -> None:
    """Return when every other task of the running loop waits: for a timer, a thread, a socket, or for what the test does next.

    This shows that something has not happened, which no event can, and depends neither on a number of turns nor on time.
    Where what is waited for comes from a timer, a thread or a socket, wait for its effect instead.
    """
    loop: Any = asyncio.get_running_loop()
    for _ in range(MOST_TURNS):
        # What is ready to run, without the step of this task, which runs. Only the loop of the standard library has it.
        if not loop._ready:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"the event loop is not idle after {MOST_TURNS:,} turns")
