"""Backups of a store in use, and restores that no client and no kill can make lose writes silently."""

from __future__ import annotations

import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from kcp_py.storage.contract import CompactedError, Delete, FutureRevisionError, Put, StorageError
from kcp_py.storage.sqlite import CorruptDatabaseError, LockedDatabaseError, SQLiteStorage, integrity_check
from kcp_py.storage.sqlite.backups import LARGEST_REVISION, back_up, restore
from kcp_py.testing.dying import DIE_AT
from tests.forks import forked
from tests.storage.sqlite.test_database import beside
from tests.storage.sqlite.test_migration import make_format_1

pytestmark = pytest.mark.anyio

_RESTORED = f"""
{DIE_AT}
from kcp_py.storage.sqlite.backups import restore
def main(copy, path, line):
    die_at(line, ("backups.py", "rewriting.py"))
    restore(copy, path)
"""
_LEFT = """
import asyncio, os, signal
from kcp_py.storage.contract import Put
from kcp_py.storage.sqlite import SQLiteStorage
async def leave(path):
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/old", b"old")])
        os.kill(os.getpid(), signal.SIGKILL)
def main(path):
    asyncio.run(leave(path))
"""


async def _keys(path: Path) -> list[str]:
    async with SQLiteStorage(path) as storage:
        return [item.key for item in (await storage.range("/")).items]


async def test_a_backup_of_a_store_in_use(tmp_path: Path) -> None:
    """The backup contains acknowledged writes and is an independent store, and writes continue."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/a", b"1"), Put("/gone", b"1")])
        await storage.transact([], [Put("/a", b"2"), Delete("/gone")])
        assert back_up(path, copy) == (2, 2)
        assert await storage.transact([], [Put("/b", b"1")]) == 3
        with pytest.raises(FileExistsError):
            back_up(path, copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert integrity_check(copy) == []
    async with SQLiteStorage(copy) as storage:
        assert [(item.key, item.value, item.mod_revision) for item in (await storage.range("/")).items] == [("/a", b"2", 2)]


async def test_a_restored_store_refuses_what_came_after_the_backup(tmp_path: Path) -> None:
    """Its revision is above that of the backup and of the store it replaces; every older one is compacted, for lists and for watches."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/a", b"1")])
        back_up(path, copy)
        seen = [await storage.transact([], [Put("/a", bytes([number]))]) for number in range(2, 9)]
        with pytest.raises(LockedDatabaseError):
            restore(copy, path)
    done = restore(copy, path, bump=1000)
    assert done.state == (1008, 1008)
    assert done.replaced is not None
    async with SQLiteStorage(done.replaced) as storage:
        assert await storage.revision() == seen[-1]
    async with SQLiteStorage(path) as storage:
        item = await storage.get("/a")
        assert item == ("/a", b"1", 1, 1)
        for revision in [1, *seen, 1007]:
            with pytest.raises(CompactedError):
                await storage.range("/", revision=revision)
            async with aclosing(storage.watch("/", start_revision=revision + 1)) as batches:
                with pytest.raises(CompactedError):
                    await anext(batches)
        with pytest.raises(FutureRevisionError):
            await storage.range("/", revision=1009)
        async with aclosing(storage.watch("/", start_revision=1009)) as batches:
            assert await storage.transact([], [Put("/b", b"1")]) == 1009
            while not (batch := await anext(batches)).events:
                pass
            assert [event.key for event in batch.events] == ["/b"]
    assert integrity_check(path) == []


async def test_a_backup_of_an_older_format(tmp_path: Path) -> None:
    """A file that an older version made is restored as one of the present format; an absent store is made."""
    copy, path = tmp_path / "copy.db", tmp_path / "store.db"
    make_format_1(copy)
    before = copy.read_bytes()
    assert restore(copy, path).replaced is None
    assert len(await _keys(path)) == 33
    assert copy.read_bytes() == before
    assert integrity_check(path) == []


@pytest.mark.parametrize("how", ["damaged", "cut", "empty", "foreign", "missing", "far"])
async def test_what_cannot_be_restored_changes_nothing(tmp_path: Path, how: str) -> None:
    """The store is unchanged, and the error describes the fault of the backup."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put(f"/{number}", b"1" * 3000) for number in range(100)])
    back_up(path, copy)
    content = bytearray(copy.read_bytes())
    match how:
        case "damaged":
            content[-5000] ^= 1
        case "cut":
            del content[-5000:]
        case "empty":
            content.clear()
        case "foreign":
            content[:16] = b"x" * 16
    copy.write_bytes(content)
    if how == "missing":
        copy.unlink()
    before = path.read_bytes()
    with pytest.raises(CorruptDatabaseError if how in ("damaged", "cut", "empty") else StorageError) as caught:
        restore(copy, path, bump=LARGEST_REVISION if how == "far" else 1)
    if how in ("cut", "empty"):
        # The advice is another backup, because this file is not that of the store and a restore was requested.
        assert str(copy) in str(caught.value)
        assert "use another backup" in str(caught.value)
        assert "kcp-py restore" not in str(caught.value)
        assert "empty store" not in str(caught.value)
    assert path.read_bytes() == before
    assert len(await _keys(path)) == 100
    if how == "damaged":
        with pytest.raises(CorruptDatabaseError):
            back_up(copy, tmp_path / "other.db")
        assert not (tmp_path / "other.db").exists()


@pytest.mark.slow
async def test_killed_at_every_step(tmp_path: Path) -> None:
    """Killed at any line, a restore leaves the whole old store, the whole new one, or a refusal; a second attempt succeeds."""
    copy = tmp_path / "copy.db"
    async with SQLiteStorage(tmp_path / "source.db") as storage:
        await storage.transact([], [Put("/new", b"new")])
        back_up(tmp_path / "source.db", copy)
    step = 0
    with forked(_LEFT) as leave, forked(_RESTORED) as restore_until:
        while True:
            folder = tmp_path / str(step)
            folder.mkdir()
            path = folder / "store.db"
            assert leave(str(path)) == -signal.SIGKILL
            code = restore_until(str(copy), str(path), step)
            try:
                keys = await _keys(path)
            except CorruptDatabaseError:
                # Its log is moved away already, and the server refuses to drop the content of the log.
                restore(copy, path)
                keys = await _keys(path)
            assert keys in (["/old"], ["/new"]), f"killed at line {step}"
            if code == 0:
                assert keys == ["/new"]
                break
            assert code == -signal.SIGKILL
            restore(copy, path)
            assert await _keys(path) == ["/new"]
            replaced = folder.glob("*.replaced-*Z*")
            kept = [entry for entry in replaced if entry.suffix != ".lock" and not entry.name.endswith(("-wal", "-shm"))]
            assert kept
            assert any([await _keys(entry) == ["/old"] for entry in kept]), f"killed at line {step}"
            step += 4
    assert step > 40
    assert not beside(path, ".restored").exists()
