"""Cached keys are never older than acknowledged writes, and bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Put
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.hot import HotKeys

pytestmark = pytest.mark.anyio


def item(key: str, size: int = 10) -> KeyValue:
    return KeyValue(key, b"x" * size, 1, 1)


async def test_it_is_bounded_by_number_and_by_bytes() -> None:
    """The longest remembered give way, and a value that would take the place of all others is not kept."""
    hot = HotKeys(max_keys=3, max_bytes=1600)
    for key in "abcd":
        hot.remember(item(key))
    assert [key for key in "abcd" if hot.get(key)] == ["b", "c", "d"]
    hot.remember(item("huge", 1000))
    assert hot.get("huge") is None
    for key in "efghij":
        hot.remember(item(key, 100))
    assert len(hot) == 3


async def test_a_key_that_is_being_written_is_not_remembered() -> None:
    """Until its commit is over, what a read finds is about to be old."""
    hot = HotKeys(max_keys=3, max_bytes=1600)
    hot.remember(item("a"))
    hot.writing("a")
    hot.remember(item("a"))
    assert hot.get("a") is None
    hot.committed()
    hot.remember(item("a"))
    assert hot.get("a") == item("a")


async def test_a_written_key_is_remembered() -> None:
    """With its state, until it is written again."""
    hot = HotKeys(max_keys=3, max_bytes=1600)
    for key in "ab":
        hot.writing(key)
        hot.written(item(key), (1024, 1))
    hot.writing("b")
    hot.committed()
    assert (hot.get("a"), hot.state("a")) == (item("a"), (1024, 1))
    assert (hot.get("b"), hot.state("b")) == (None, None)


async def test_reads_between_writes_are_never_stale(tmp_path: Path) -> None:
    """Readers that hammer a key while it is written see every acknowledged state at once, deletes and refused writes included."""
    async with SQLiteStorage(tmp_path / "kcp.db") as storage:
        acknowledged = await storage.transact([], [Put("/a", b"0")])
        stop = asyncio.Event()

        async def read() -> None:
            while not stop.is_set():
                before = acknowledged
                found = await storage.get("/a")
                assert found is None or found.mod_revision >= before
                await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for number in range(1, 200):
            acknowledged = await storage.transact([], [Put("/a", str(number).encode())])
            found = await storage.get("/a")
            assert found is not None
            assert found.value == str(number).encode()
            with pytest.raises(ConflictError):
                await storage.transact([Compare("/a", mod_revision=1)], [Put("/a", b"refused")])
            found = await storage.get("/a")
            assert found is not None
            assert found.value == str(number).encode()
        await storage.transact([], [Delete("/a")])
        assert await storage.get("/a") is None
        stop.set()
        await asyncio.gather(*readers)
