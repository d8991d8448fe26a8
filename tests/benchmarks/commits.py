"""The row of durable writes through the storage alone, compared with a loop that commits rows to SQLite in groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Final

from kcp_py.storage.contract import Compare, Put
from kcp_py.storage.sqlite import SQLiteStorage
from tests.benchmarks.bare import GroupCommit
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.row import Row

_WRITES: Final = 2_000
_ROUNDS: Final = 5
_WANTED: Final = {1: "<= 2.5x", 16: "<= 3x", 64: "<= 4x"}
"""By the number of concurrent writers."""

Write = Callable[[str], Awaitable[None]]


async def _cpu(write: Write, keys: Iterable[str], writers: int) -> float:
    """Seconds of processor time for one write."""
    remaining = iter(keys)

    async def work() -> None:
        for key in remaining:
            await write(key)

    before = time.process_time()
    await asyncio.gather(*(work() for _ in range(writers)))
    return (time.process_time() - before) / _WRITES


async def commit_row(directory: Path) -> AsyncIterator[Row]:
    """Durable creates and updates of 1 KB values until their events are delivered, by 1, 16 and 64 writers."""
    bare = GroupCommit(str(directory / "commits-bare.db"))
    value = KILOBYTE.encode()
    revisions: dict[str, int] = {}
    async with SQLiteStorage(directory / "commits.db") as storage:

        async def ours(key: str) -> None:
            compare = Compare(key, mod_revision=revisions.get(key, 0))
            revisions[key] = await storage.transact([compare], [Put(key, value)])

        async def theirs(_: str) -> None:
            await bare.put(value)

        async def follow() -> None:
            async for _ in storage.watch("/", start_revision=1):
                pass

        following = asyncio.create_task(follow())
        for writers, wanted in _WANTED.items():
            spent: dict[str, list[float]] = {"create": [], "update": [], "bare": []}
            for number in range(_ROUNDS):
                keys = [f"/registry/group/items/cluster-{writers}/{number}-{at:06d}" for at in range(_WRITES)]
                spent["create"].append(await _cpu(ours, keys, writers))
                spent["bare"].append(await _cpu(theirs, keys, writers))
                spent["update"].append(await _cpu(ours, keys, writers))
            other = median(spent["bare"])
            for work in ("create", "update"):
                mine = median(spent[work])
                name = f"{work} of 1 KB in the storage alone, durable, {writers} writers, CPU"
                yield Row(name, f"{mine * 1e6:,.0f} us", f"{other * 1e6:,.0f} us", f"{mine / other:.1f}x", wanted)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


COMMIT_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {"commits": commit_row}
