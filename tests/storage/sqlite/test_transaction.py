"""Which conflict a transaction reports, and what transactions of one commit see of each other."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import Compare, ConflictError, Put
from kcp_py.storage.sqlite import SQLiteStorage


@pytest.mark.anyio
async def test_a_key_that_must_not_exist_is_reported_before_later_compares(tmp_path):
    """The first compare that fails is the conflict, with what the key holds, though a created key is not looked up beforehand."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        revision = await storage.transact([], [Put("/r/a", b"1"), Put("/r/guard", b"g")])
        absent = Compare("/r/a", mod_revision=0)
        for compares in ([absent], [absent, Compare("/r/guard", mod_revision=99)], [Compare("/r/guard", mod_revision=revision), absent]):
            with pytest.raises(ConflictError) as caught:
                await storage.transact(compares, [Put("/r/a", b"2"), Put("/r/b", b"2")])
            assert caught.value.key == "/r/a"
            assert caught.value.current is not None
            assert caught.value.current.value == b"1"
        with pytest.raises(ConflictError) as caught:
            await storage.transact([Compare("/r/c", mod_revision=0), Compare("/r/guard", mod_revision=99)], [Put("/r/c", b"2")])
        assert caught.value.key == "/r/guard"
        assert await storage.revision() == revision
        assert await storage.get("/r/b") is None
        assert await storage.get("/r/c") is None


@pytest.mark.anyio
async def test_of_two_creates_in_one_group_the_first_wins(tmp_path):
    """A create that follows another one of the same key in the same transaction of SQLite conflicts with it."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        absent = [Compare("/r/a", mod_revision=0)]
        first, second = await asyncio.gather(
            storage.transact(absent, [Put("/r/a", b"1")]), storage.transact(absent, [Put("/r/a", b"2")]), return_exceptions=True
        )
        found = await storage.get("/r/a")
    assert isinstance(second, ConflictError)
    assert second.current is not None
    assert second.current.value == b"1"
    assert found is not None
    assert (found.value, found.mod_revision) == (b"1", first)
