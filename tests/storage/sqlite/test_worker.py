"""The thread for long calls."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from kcp_py.storage.sqlite.worker import Worker

pytestmark = pytest.mark.anyio


async def test_result_and_error() -> None:
    """A job's result or error comes back."""
    worker = Worker("test")
    assert await worker.submit(lambda: threading.current_thread().name) == "test"
    with pytest.raises(ZeroDivisionError):
        await worker.submit(lambda: 1 // 0)
    worker.stop()


async def test_order() -> None:
    """Jobs run one after the other, in the order in which they were given."""
    worker = Worker("test")
    seen: list[int] = []
    await asyncio.gather(*(worker.submit(partial(seen.append, number)) for number in range(50)))
    assert seen == list(range(50))
    worker.stop()


async def test_stop_finishes_jobs() -> None:
    """Jobs from before the stop are finished."""
    worker = Worker("test")
    seen: list[int] = []
    job = worker.submit(lambda: seen.append(1))
    worker.stop()
    assert seen == [1]
    await job


async def test_cancelled_job() -> None:
    """A caller who goes away does not disturb the thread."""
    worker = Worker("test")
    release = threading.Event()
    job = worker.submit(release.wait)
    job.cancel()
    release.set()
    assert await worker.submit(lambda: 7) == 7
    worker.stop()
