"""How writes are put into groups."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import Put
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.checkpoint import Checkpointer


@pytest.fixture
def commits(monkeypatch):
    """The size of every commit, in order."""
    sizes: list[int] = []
    written = Checkpointer.written

    def record(self, size):
        sizes.append(size)
        written(self, size)

    monkeypatch.setattr(Checkpointer, "written", record)
    return sizes


@pytest.mark.anyio
async def test_writes_that_come_one_turn_after_the_other_share_a_commit(tmp_path, commits):
    """A group grows for as long as the loop brings further writes, and ends when it brings none."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:

        async def write(number):
            for _ in range(number):
                await asyncio.sleep(0)
            return await storage.transact([], [Put(f"/r/{number}", b"v")])

        revisions = await asyncio.gather(*map(write, range(10)))
    assert sorted(revisions) == list(range(revisions[0], revisions[0] + 10))
    assert len(commits) < 10
