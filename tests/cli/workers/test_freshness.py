"""A request begins when the caches of its process have all acknowledged writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from kcp_py.cli.workers.freshness import Freshness
from kcp_py.storage.contract import Put, WatchBatch
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.shared import SharedRevisions
from kcp_py.storage.wrapping import WrappedStorage
from kcp_py.watchcache import Fanout

TIMEOUT = 60


class Late(WrappedStorage):
    """A store whose events come when the test lets them."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage())
        self.come = asyncio.Event()

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`."""
        async for batch in super().watch(prefix, start_revision=start_revision):
            await self.come.wait()
            yield batch


@pytest.mark.anyio
async def test_a_request_waits_for_the_events_of_acknowledged_writes() -> None:
    """A request that comes after an acknowledgement begins after its events; one without a write before it begins at once."""
    revisions = SharedRevisions()
    begun: list[int] = []

    async def app(*_: Any) -> None:
        begun.append(fanout.revision)

    async with Late() as storage, asyncio.timeout(TIMEOUT):
        fanout = Fanout(storage, "/r")
        started = asyncio.Event()
        running = asyncio.create_task(fanout.run(started=started))
        await started.wait()
        fresh = Freshness(app, fanout, revisions)
        await fresh({}, None, None)
        assert begun == [0]
        revisions.committed(await storage.transact([], [Put("/r/a", b"1")]))
        waiting = asyncio.create_task(fresh({}, None, None))
        for _ in range(10):
            await asyncio.sleep(0)
        assert begun == [0]
        storage.come.set()
        await waiting
        assert begun == [0, 1]
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
