"""Keys that were written after a revision are never taken for unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.storage.contract import Delete, KeyValue, Put
from kcp_py.storage.oldkeys import read_at
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.recent import RecentWrites

pytestmark = pytest.mark.anyio


def test_a_key_may_be_newer_than_revisions_before_its_last_write() -> None:
    """Keys without a write are not newer, and nothing is known about revisions before the first one."""
    recent = RecentWrites(10)
    recent.writing("/a/b", 11)
    recent.writing("/a/b", 12)
    recent.writing("/a/c", 13)
    assert [recent.may_be_newer("/a/b", revision) for revision in (9, 10, 11, 12)] == [True, True, True, False]
    assert [recent.may_be_newer("/a/d", revision) for revision in (9, 10)] == [True, False]


def test_a_directory_is_as_new_as_the_last_key_in_it() -> None:
    """What other directories lie in is not known, however deep they are."""
    recent = RecentWrites(10)
    recent.writing("/a/b/c", 11)
    recent.writing("/a/d/e/f", 12)
    assert [recent.may_be_newer("/a/b/", revision) for revision in (10, 11)] == [True, False]
    assert not recent.may_be_newer("/a/b/c/", 10)
    assert all(recent.may_be_newer(outer, 99) for outer in ("/", "/a/", "/a/d/"))


def test_the_writes_of_a_generation_are_forgotten_together() -> None:
    """Then every key may be newer than a revision before the oldest write that is known."""
    recent = RecentWrites(0, most_keys=3)
    for revision, key in enumerate(("/a", "/b", "/c", "/d", "/e/f"), 1):
        recent.writing(key, revision)
    assert [recent.may_be_newer("/x", revision) for revision in (1, 2, 3)] == [True, False, False]
    assert [recent.may_be_newer("/d", revision) for revision in (3, 4)] == [True, False]
    assert recent.may_be_newer("/", 99)
    for number in range(6):
        recent.writing(f"/{number}", 6)
    assert not recent.may_be_newer("/e/", 6)


async def test_reads_at_old_revisions_undo_later_writes(tmp_path: Path) -> None:
    """A key and a directory are read as they were, among many writes of others, and after the file was opened again."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        first = await storage.transact([], [Put("/a/kept", b"1"), Put("/a/gone", b"1"), Put("/b/kept", b"1")])
        await storage.transact([], [Delete("/a/gone")])
        for number in range(20):
            await storage.transact([], [Put(f"/c{number}/{one}", b"1") for one in range(500)])
            await _check(storage, first)
    async with SQLiteStorage(path) as storage:
        await _check(storage, first)


async def _check(storage: SQLiteStorage, revision: int) -> None:
    assert await read_at(storage, "/a/gone", revision) == KeyValue("/a/gone", b"1", revision, revision)
    assert await read_at(storage, "/b/kept", revision) == KeyValue("/b/kept", b"1", revision, revision)
    assert [item.key for item in (await storage.range("/a/", revision=revision)).items] == ["/a/gone", "/a/kept"]
    assert [item.key for item in (await storage.range("/b/", revision=revision)).items] == ["/b/kept"]
