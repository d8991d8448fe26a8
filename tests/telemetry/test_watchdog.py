"""A function that holds up the event loop is reported while it does so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcp_py.library.functions import caller
from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.watchdog import Watchdog

pytestmark = pytest.mark.anyio


async def look(function: Callable[[], Any], turns: int, watchdog: Watchdog, waits: list[float]) -> None:
    """Hold the loop in a function of the program, which ends when the watchdog has looked so many times."""
    loop, ident = asyncio.get_running_loop(), threading.get_ident()
    begun, seen = threading.Event(), threading.Event()

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == turns:
            seen.set()
            while not watchdog._answered.wait(30):
                raise AssertionError
        return False

    watchdog._wait = wait

    def observe() -> None:
        assert begun.wait(30)
        watchdog.look(loop, ident)

    def holds() -> None:
        begun.set()
        function()
        assert seen.wait(30)

    looking = asyncio.create_task(asyncio.to_thread(observe))
    await asyncio.sleep(0)
    caller(holds, thread=False)(None)
    await looking


async def test_a_function_is_reported_when_it_is_seen_twice() -> None:
    """With its name and the time so far, again after ten times as long, and as a metric."""
    watchdog, waits = Watchdog(), list[float]()
    with capture_logs() as logs:
        await look(lambda: None, 20, watchdog, waits)
    events = [one for one in logs if one["event"] == "event_loop_held"]
    assert {one["function"].rpartition(".")[2] for one in events} == {"holds"}
    assert [one["log_level"] for one in events] == ["warning"] * len(events)
    times = [one["seconds"] for one in events]
    assert 0.05 < times[0] < 0.1
    assert all(later >= 9 * sooner for sooner, later in pairwise(times))
    assert sum(watchdog.holds.values()) == 1
    gauges = Gauges()
    watchdog.describe(gauges)
    (family,) = gauges.collect()
    assert [sample.labels["function"].rpartition(".")[2] for sample in family.samples] == ["holds"]


async def test_an_answer_in_time_is_no_hold() -> None:
    """The loop is asked once, and nothing is looked at."""
    watchdog = Watchdog()
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return not watchdog._answered.wait(30)

    watchdog._wait = wait
    with capture_logs() as logs:
        await asyncio.to_thread(watchdog.look, asyncio.get_running_loop(), threading.get_ident())
    assert (len(waits), logs) == (1, [])


async def test_without_requests_the_thread_sleeps() -> None:
    """It wakes with the next request, and ends with the control plane."""
    turns = 0

    def wait(_: float) -> bool:
        nonlocal turns
        turns += 1
        return False

    watchdog = Watchdog(wait)
    watchdog.start()
    assert watchdog._asleep
    watchdog.wake()
    loop = asyncio.get_running_loop()
    while not watchdog._asleep:
        await asyncio.sleep(0.01)
    assert turns > 0
    await loop.run_in_executor(None, watchdog.close)
    assert watchdog._thread is not None
    assert not watchdog._thread.is_alive()
