"""`DeadlineTimer`: one timer for deadlines that change with every request."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from math import inf
from typing import Final

NEVER: Final = inf
"""The time of a timer that does not run."""


class DeadlineTimer:
    """Runs at the earliest deadline that it was set to, which may have moved by then: the caller looks, and sets the timer again.

    Making and cancelling a timer of the event loop with every request costs more.

    Attributes:
        at: when it runs, in seconds of the event loop's clock; `NEVER` where it does not run.
    """

    __slots__ = ("_handle", "_loop", "at")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: TimerHandle | None = None
        self.at = NEVER

    def set(self, deadline: float, callback: Callable[[], None]) -> None:
        """Have `callback` called at a deadline, or at an earlier one of before. It is not kept behind that: it may hold this timer."""
        if self.at <= deadline:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(deadline - self._loop.time(), self._run, callback)
        self.at = deadline

    def stop(self) -> None:
        """Call nothing."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self.at = NEVER

    def _run(self, callback: Callable[[], None]) -> None:
        self._handle = None
        self.at = NEVER
        callback()
