"""`EventLoopLag`: the delay of timers on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.histogram import Histogram

INTERVAL_SECONDS: Final = 0.25
_LATE_SECONDS: Final = 0.05
LAG_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class EventLoopLag:
    """Sets a timer four times a second and measures its delay, which is the time that one request blocks all others."""

    def __init__(self, on_lag: Callable[[], None] | None = None) -> None:
        """Begin without observations. `on_lag` is called when a timer is late by more than 50 milliseconds."""
        self._on_lag = on_lag
        self.lag = Histogram(LAG_BUCKETS)

    def describe(self, gauges: Gauges) -> None:
        """Add the family."""
        gauges.add(
            "kcp_event_loop_lag_seconds",
            "How late the event loop came to a timer, sampled four times a second.",
            lambda: self.lag,
            kind="histogram",
        )

    async def run(self, *, clock: Callable[[], float] | None = None, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Measure until cancelled.

        Args:
            clock: monotonic seconds; by default those of the event loop.
            sleep: waits.
        """
        now = clock if clock is not None else asyncio.get_running_loop().time
        while True:
            due = now() + INTERVAL_SECONDS
            await sleep(INTERVAL_SECONDS)
            late = now() - due
            self.lag.observe(max(0.0, late))
            if late > _LATE_SECONDS and self._on_lag is not None:
                self._on_lag()
