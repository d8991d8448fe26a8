"""`Clock`: the time of day, seconds that do not go back, and waiting. Whatever has a TTL is given one.

The composition root passes one clock to all parts of a server, so that a test can let hours pass at once. Limits of real work do not
follow it: deadlines of requests, of calls and of connections stay with the event loop, and so do handshakes of TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic as system_monotonic
from time import time as system_time
from typing import Any, Final, Protocol


class Timer(Protocol):
    """A function that is called later."""

    def cancel(self) -> None:
        """Do not call the function. It has no effect if the function was called."""


Schedule = Callable[[float, Callable[[], None]], Timer]
"""(seconds, function) -> a handle; calls the function on the running event loop once the time has passed."""


def call_later(seconds: float, function: Callable[[], None]) -> Timer:
    """The `Schedule` of the running event loop."""
    return asyncio.get_running_loop().call_later(seconds, function)


def _cancel(waiting: asyncio.Future[Any]) -> None:
    waiting.cancel()


class Clock:
    """Four functions. Those of the system are the functions themselves: a clock costs the reader one attribute.

    Attributes:
        time: Unix seconds.
        monotonic: seconds that do not go back, from any beginning.
        sleep: waits for seconds.
        call_later: see `Schedule`.
    """

    __slots__ = ("__weakref__", "call_later", "monotonic", "sleep", "time")

    def __init__(
        self,
        *,
        time: Callable[[], float] = system_time,
        monotonic: Callable[[], float] = system_monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        call_later: Schedule = call_later,
    ) -> None:
        """Make a clock of functions; by default they are those of the system."""
        self.time = time
        self.monotonic = monotonic
        self.sleep = sleep
        self.call_later = call_later

    def call_when_past(self, seconds: float, function: Callable[[], None]) -> Timer:
        """`call_later` for what no other work depends on, such as the end of a watch: a clock that is set forward does not stop there."""
        return self.call_later(seconds, function)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait until an event is set, but no longer than so many seconds of this clock.

        Returns:
            Whether the event is set.
        """
        if event.is_set():
            return True
        waiting = asyncio.ensure_future(event.wait())
        timer = self.call_later(seconds, partial(_cancel, waiting))
        try:
            await asyncio.wait((waiting,))
        finally:
            timer.cancel()
            waiting.cancel()
        return event.is_set()


SYSTEM_CLOCK: Final = Clock()
"""The clock of the machine."""
