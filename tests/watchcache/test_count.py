"""The number of stored objects, kept by events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kcp_py.storage.contract import Delete, Put, RangeResult
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import Fanout
from kcp_py.watchcache.count import ObjectCount

pytestmark = pytest.mark.anyio

PREFIX = "/registry/core.kcp.io/logicalclusters/"


def key(name: str) -> str:
    return f"{PREFIX}{name}/cluster"


@contextlib.asynccontextmanager
async def running(fanout: Fanout) -> AsyncIterator[None]:
    started = asyncio.Event()
    task = asyncio.create_task(fanout.run(started=started))
    await started.wait()
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


class Busy(MemoryStorage):
    """A store that is written to while it is read."""

    fanout: Fanout
    writes = 0

    async def range(self, prefix: str, **more) -> RangeResult:
        found = await super().range(prefix, **more)
        self.writes += 1
        if self.writes == 1:
            revision = await self.transact([], [Put(key("late"), b"1")])
            await self.fanout.reached(revision)
        return found


async def test_the_number_follows_the_feed():
    """Creations and deletions change the number, updates do not, and what the count has seen is not counted again."""
    async with MemoryStorage() as storage:
        fanout = Fanout(storage, "/registry")
        count = ObjectCount(storage, fanout, PREFIX)
        async with running(fanout):
            # The events of these come after the count has seen them.
            for name in ("a", "b"):
                await storage.transact([], [Put(key(name), b"1")])
            assert count.value is None
            await count.load()
            assert count.value == 2
            await storage.transact([], [Put(key("a"), b"2")])
            await storage.transact([], [Put(key("c"), b"1")])
            await fanout.reached(await storage.revision())
            assert count.value == 3
            revision = await storage.transact([], [Delete(key("a"))])
            await fanout.reached(revision)
            assert count.value == 2


async def test_a_change_while_counting_counts_once():
    """Changes between the read and its answer are added to the result."""
    async with Busy() as storage:
        fanout = storage.fanout = Fanout(storage, "/registry")
        count = ObjectCount(storage, fanout, PREFIX)
        async with running(fanout):
            await storage.transact([], [Put(key("a"), b"1")])
            await count.load()
            assert count.value == 2


async def test_after_a_gap_it_counts_anew():
    """Where events may have been missed the number is not known until it is counted again."""
    async with MemoryStorage() as storage:
        fanout = Fanout(storage, "/registry")
        count = ObjectCount(storage, fanout, PREFIX)
        async with running(fanout):
            await count.load()
        await storage.transact([], [Put(key("a"), b"1")])
        async with running(fanout):
            assert count.value is None
            await count.load()
            assert count.value == 1
