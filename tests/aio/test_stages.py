"""Requests take the stages of their work together."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kcp_py.aio.stages import next_stage, stages_ended

pytestmark = pytest.mark.anyio


async def test_stages_are_taken_together() -> None:
    """No request begins its second stage before all have ended the first one."""
    seen: list[int] = []

    async def request() -> None:
        for stage in range(3):
            seen.append(stage)
            await next_stage()

    await asyncio.gather(*(request() for _ in range(4)))
    assert seen == [0] * 4 + [1] * 4 + [2] * 4


async def test_ended_stages_are_counted() -> None:
    """When a request ends a stage, whether it goes on or is cancelled; other threads have counts of their own."""
    before, others = stages_ended(), []
    tasks = [asyncio.create_task(_stage()) for _ in range(3)]
    await asyncio.sleep(0)
    assert stages_ended() == before + 3
    thread = threading.Thread(target=lambda: others.append(stages_ended()))
    thread.start()
    thread.join()
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert stages_ended() == before + 3
    assert others == [0]


async def test_a_cancelled_request_ends_at_its_stage() -> None:
    """A cancellation between two stages is raised there."""
    task = asyncio.create_task(asyncio.wait_for(_stage(), None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _stage() -> None:
    await next_stage()
