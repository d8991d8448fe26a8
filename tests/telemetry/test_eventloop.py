from __future__ import annotations

import pytest

from kcp_py.telemetry.eventloop import INTERVAL_SECONDS, EventLoopLag
from kcp_py.telemetry.gauges import Gauges

pytestmark = pytest.mark.anyio


class EndedError(Exception):
    """Ends the loop."""


async def test_lag():
    """What a turn comes later than its time is the lag."""
    now = 100.0
    late = iter((0.0, 0.004, 3.0))

    async def sleep(seconds):
        nonlocal now
        try:
            now += seconds + next(late)
        except StopIteration:
            raise EndedError from None

    lag = EventLoopLag()
    with pytest.raises(EndedError):
        await lag.run(clock=lambda: now, sleep=sleep)
    buckets = dict(lag.lag.buckets())
    assert (buckets["0.001"], buckets["0.005"], buckets["2.5"], buckets["5"]) == (1, 2, 2, 3)
    assert INTERVAL_SECONDS < 1
    gauges = Gauges()
    lag.describe(gauges)
    assert [family.name for family in gauges.collect()] == ["kcp_event_loop_lag_seconds"]
