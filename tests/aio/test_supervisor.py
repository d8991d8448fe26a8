from __future__ import annotations

import asyncio

import pytest

from kcp_py.aio.supervisor import Supervisor

pytestmark = pytest.mark.anyio


class Sleeps:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def test_failures_are_reported_and_tried_again():
    """A task that fails is started again, ever more slowly, until it returns."""
    reports = []
    sleeps = Sleeps()
    done = asyncio.Event()
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs < 12:
            raise ValueError(runs)
        done.set()

    async with Supervisor(lambda name, error, delay: reports.append((name, str(error), delay)), sleep=sleeps) as supervisor:
        supervisor.start("compaction", run)
        await done.wait()
        await asyncio.sleep(0)
        assert supervisor.running == frozenset()
    assert reports[0] == ("compaction", "1", 0.1)
    assert len(reports) == 11
    assert sleeps.slept[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(sleeps.slept) == sleeps.slept[-1] == 30.0


async def test_the_end_cancels_and_waits():
    """Leaving the supervisor ends its tasks, and their last steps are waited for."""
    ended = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async with Supervisor(lambda *_: None) as supervisor:
        supervisor.start("one", run)
        supervisor.start("two", run)
        await asyncio.sleep(0)
        assert supervisor.running == {"one", "two"}
    assert ended == [True, True]


async def test_a_failure_at_the_end_is_not_tried_again():
    """Neither a failure that takes the place of the cancellation, nor one of a task group at the same moment."""
    failing = asyncio.Event()
    runs = []

    async def replace() -> None:
        runs.append("replace")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("All connection attempts failed") from None

    async def fail() -> None:
        await failing.wait()
        raise OSError("All connection attempts failed")

    async def group() -> None:
        runs.append("group")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    async with asyncio.timeout(60), Supervisor(lambda *_: runs.append("failed")) as supervisor:
        supervisor.start("replace", replace)
        supervisor.start("group", group)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        failing.set()
        await asyncio.sleep(0)
    assert sorted(runs) == ["group", "replace"]
