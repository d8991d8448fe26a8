"""The write-ahead log under a running store: damage is found before it is copied into the database file."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from kcp_py.storage.contract import Put, UnavailableError
from kcp_py.storage.sqlite import CorruptDatabaseError, SQLiteStorage, integrity_check
from kcp_py.storage.sqlite.database import open_reading
from kcp_py.storage.sqlite.log import LogCheck, read_log
from tests.storage.sqlite.test_database import beside

pytestmark = pytest.mark.anyio

_FLIPS = 40
_HEADER = 32
_FRAME = 24 + 4096


def _flip(path: Path, at: int, bit: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    byte = os.pread(descriptor, 1, at)[0]
    os.pwrite(descriptor, bytes([byte ^ 1 << bit]), at)
    os.close(descriptor)


async def _put(storage: SQLiteStorage, count: int) -> None:
    for number in range(count):
        await storage.transact([], [Put(f"/k/{number}", f"{number} ".encode() * 500)])


async def test_a_flip_under_a_running_store_is_not_copied_into_the_file(tmp_path: Path) -> None:
    """The log is left as it is, at the checkpoint and at the end; no write is taken behind it, and it is refused at the next start."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path, checkpoint_bytes=400_000) as storage:
        await _put(storage, 10)
        log = beside(path, "-wal")
        content = log.read_bytes()
        _flip(log, content.index(b"3 3 3 3") + 2, 1)
        before = path.read_bytes()
        with pytest.raises(UnavailableError, match="write-ahead log is damaged at its frame"):
            await _put(storage, 100_000)
        with pytest.raises(UnavailableError, match="write-ahead log is damaged"):
            await storage.check()
        assert path.read_bytes() == before
        assert any("write-ahead log is damaged" in problem for problem in integrity_check(path))
    assert path.read_bytes() == before
    with pytest.raises(CorruptDatabaseError, match="acknowledged writes from there on are lost"):
        await SQLiteStorage(path).__aenter__()


async def test_a_flip_before_the_end_is_not_copied_either(tmp_path: Path) -> None:
    """A store that is closed before its next checkpoint does not copy a damaged log into the file."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path, checkpoint_bytes=1 << 30) as storage:
        await _put(storage, 10)
        log = beside(path, "-wal")
        _flip(log, log.read_bytes().index(b"3 3 3 3") + 2, 1)
    with pytest.raises(CorruptDatabaseError, match="acknowledged writes from there on are lost"):
        await SQLiteStorage(path).__aenter__()


async def test_each_flip_is_found_as_in_a_log_that_is_not_in_use(tmp_path: Path) -> None:
    """Checking many frames together gives the same result as checking them one by one, for any position of the wrong bit."""
    path = tmp_path / "store.db"
    chance = random.Random(3)
    async with SQLiteStorage(path, checkpoint_bytes=1 << 30) as storage:
        await _put(storage, 40)
        log = beside(path, "-wal")
        assert LogCheck(str(path)).damage() == ""
        for _ in range(_FLIPS):
            at, bit = chance.randrange(32, log.stat().st_size), chance.randrange(8)
            _flip(log, at, bit)
            assert LogCheck(str(path)).damage() == read_log(str(path)).damage
            _flip(log, at, bit)


async def test_a_log_that_is_being_written_is_no_damage(tmp_path: Path) -> None:
    """Looks while commits and checkpoints go on find nothing, however the log begins anew meanwhile."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path, checkpoint_bytes=200_000) as storage:
        check = LogCheck(str(path))
        writing = asyncio.gather(*(_put(storage, 100) for _ in range(3)))
        while not writing.done():
            assert await asyncio.to_thread(check.damage) == ""
        await writing


def _frames(path: Path) -> int:
    """How many frames the log of a store in use has, by its index."""
    connection = open_reading(str(path))
    frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    connection.close()
    return frames


async def _restart_log(path: Path, storage: SQLiteStorage, *, count: int) -> bytes:
    """Let the log begin anew with `count` writes, before old frames. The result is the old log."""
    await _put(storage, 40)
    old = beside(path, "-wal").read_bytes()
    connection = open_reading(str(path))
    copied = False
    while not copied:
        with suppress(apsw.BusyError):  # the checkpoint of the store is running
            copied = len(set(connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE))) == 1
    connection.close()
    await _put(storage, count)
    return old


async def test_old_frames_behind_the_last_commit_are_not_read(tmp_path: Path) -> None:
    """Only the frames of the present log count, even where older ones behind it look like a damaged commit and later ones."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path, checkpoint_bytes=1 << 30) as storage:
        await _restart_log(path, storage, count=5)
        log, frames = beside(path, "-wal"), _frames(path)
        content = bytearray(log.read_bytes())
        assert _HEADER + (frames + 10) * _FRAME < len(content)
        for number in range(frames, frames + 10):
            at = _HEADER + number * _FRAME
            content[at + 4 : at + 16] = b"\1\1\1\1" + content[16:24]
        with log.open("r+b") as file:
            file.write(content)
        check = LogCheck(str(path))
        assert check.damage(frames) == check.damage(frames) == ""
        assert check.damage() == read_log(str(path)).damage != ""


async def test_faults_in_a_log_with_old_frames_are_found(tmp_path: Path) -> None:
    """Flipped bits, zeros, and writes that the disk lost are found as in the whole file, for any frame."""
    path = tmp_path / "store.db"
    chance = random.Random(5)
    found = 0
    async with SQLiteStorage(path, checkpoint_bytes=1 << 30) as storage:
        old = await _restart_log(path, storage, count=20)
        log, frames = beside(path, "-wal"), _frames(path)
        content = log.read_bytes()
        assert _HEADER + frames * _FRAME < len(content)
        assert LogCheck(str(path)).damage(frames) == ""
        for number in range(frames):
            at = _HEADER + number * _FRAME
            frame = bytearray(content[at : at + _FRAME])
            frame[chance.randrange(_FRAME)] ^= 1 << chance.randrange(8)
            for fault in (frame, bytes(_FRAME), old[at : at + _FRAME]):
                with log.open("r+b") as file:
                    file.seek(at)
                    file.write(fault)
                    file.flush()
                    damage = LogCheck(str(path)).damage(frames)
                    assert damage == read_log(str(path)).damage
                    found += bool(damage)
                    file.seek(at)
                    file.write(content[at : at + _FRAME])
    assert found > 2 * frames


async def test_a_write_that_the_disk_lost_is_not_copied_into_the_file(tmp_path: Path) -> None:
    """An old frame within the present log stops the checkpoints of a running store."""
    path = tmp_path / "store.db"
    # The first checkpoint of the store itself is after the damage.
    async with SQLiteStorage(path, checkpoint_bytes=1_200_000) as storage:
        old = await _restart_log(path, storage, count=5)
        log = beside(path, "-wal")
        with log.open("r+b") as file:
            file.seek(_HEADER + 2 * _FRAME)
            file.write(old[_HEADER + 2 * _FRAME : _HEADER + 3 * _FRAME])
        before = path.read_bytes()
        with pytest.raises(UnavailableError, match="write-ahead log is damaged at its frame 3"):
            await _put(storage, 100_000)
        assert path.read_bytes() == before
