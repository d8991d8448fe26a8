"""`Turns`: long work on the event loop, a slice at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Final

SLICE_SECONDS: Final = 0.005
"""Seconds of work after which other tasks get a turn."""


class Turns:
    """Gives other tasks a turn whenever a slice of time is used up. Made where the work begins."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_SECONDS

    async def take(self) -> None:
        """Call between steps."""
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_SECONDS
