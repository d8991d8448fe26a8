"""Reads of a file that another part of the machine writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.storage.contract import Delete, Put, StorageError
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.following import FollowedWrites, FollowingReader


@pytest.mark.anyio
async def test_old_revisions_do_not_depend_on_events(tmp_path: Path) -> None:
    """A key at an old revision is right whether the events of later writes have come or not."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        first = await storage.transact([], [Put("/a/1", b"1"), Put("/a/2", b"1")])
        writes = FollowedWrites()
        writes.begin(first)
        reader = FollowingReader(path, writes)
        second = await storage.transact([], [Put("/a/1", b"2")])
        third = await storage.transact([], [Delete("/a/2")])
        for known in (first, second, third):
            if known > first:
                writes.writing("/a/1" if known == second else "/a/2", known)
                writes.known = known
            assert writes.misses(third) == (known < third)
            for key, values in (("/a/1", [b"1", b"2", b"2"]), ("/a/2", [b"1", b"1", None])):
                for revision, value in zip((first, second, third), values, strict=True):
                    item = await reader.get_at(key, revision, keys_only=False)
                    assert (None if item is None else item.value) == value
        await reader.close()


@pytest.mark.anyio
async def test_the_owner_ends_while_the_file_is_read(tmp_path: Path) -> None:
    """A reader keeps neither the owner from ending in order nor the next one from opening the file, and reads its writes."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/a", b"1")])
        reader = FollowingReader(path, FollowedWrites())
        assert reader.get("/a") is not None
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/b", b"2")])
        item = reader.get("/b")
        assert item is not None
        assert item.value == b"2"
        await reader.close()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is an error of the contract, and is not created."""
    with pytest.raises(StorageError):
        FollowingReader(tmp_path / "store.db", FollowedWrites())
    assert list(tmp_path.iterdir()) == []
