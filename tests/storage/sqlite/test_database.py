"""The file: its lock, its marks, and what happens when something is wrong with it."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kcp_py.storage.contract import Delete, NoSpaceError, Put
from kcp_py.storage.sqlite import (
    CorruptDatabaseError,
    IncompatibleDatabaseError,
    LockedDatabaseError,
    SQLiteStorage,
    checksums,
    integrity_check,
)
from kcp_py.storage.sqlite.database import open_reading
from kcp_py.storage.sqlite.errors import DatabaseFileError

pytestmark = pytest.mark.anyio

_HOLDER = """
import asyncio, sys
from kcp_py.storage.sqlite import SQLiteStorage
async def main():
    async with SQLiteStorage(sys.argv[1]):
        print("open", flush=True)
        sys.stdin.read()
asyncio.run(main())
"""

_EXITED = """
import asyncio, sys
from kcp_py.storage.contract import Put
from kcp_py.storage.sqlite import SQLiteStorage
async def main():
    storage = await SQLiteStorage(sys.argv[1]).__aenter__()
    await storage.transact([], [Put("/a", b"x")])
asyncio.run(main())
"""


def beside(path: Path, ending: str) -> Path:
    """One of the files next to a database."""
    return path.with_name(path.name + ending)


_WRITES = 20
_KILLED = """
import asyncio, os, signal, sys
from kcp_py.storage.contract import Put
from kcp_py.storage.sqlite import SQLiteStorage
async def main():
    async with SQLiteStorage(sys.argv[1]) as storage:
        first = await storage.revision()
        for number in range(int(sys.argv[2])):
            await storage.transact([], [Put(f"/killed/{number}", b"y" * 3000)])
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def _write_and_be_killed(path: Path) -> None:
    """Leave a database as a killed server does: with `_WRITES` acknowledged writes, the last of them in the log."""
    subprocess.run([sys.executable, "-c", _KILLED, str(path), str(_WRITES)], check=False)
    assert beside(path, "-wal").stat().st_size


async def _fill(path: Path, count: int = 300) -> None:
    async with SQLiteStorage(path) as storage:
        for number in range(0, count, 100):
            await storage.transact([], [Put(f"/{item}", b"x" * 500) for item in range(number, number + 100)])


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _files(folder: Path) -> dict[str, os.stat_result]:
    return {path.name: path.stat() for path in folder.iterdir()}


async def test_modes(tmp_path: Path) -> None:
    """Only the owner can read the files."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/a", b"x")])
        modes = {name: stat.S_IMODE(status.st_mode) for name, status in _files(tmp_path).items()}
    assert set(modes) == {"store.db", "store.db-wal", "store.db-shm", "store.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_clean_close(tmp_path: Path) -> None:
    """A store that was closed leaves one complete file and an empty lock."""
    path = tmp_path / "store.db"
    await _fill(path)
    assert {name: status.st_size > 0 for name, status in _files(tmp_path).items()} == {"store.db": True, "store.db.lock": False}
    assert integrity_check(path) == []


async def test_cancelled_opening(tmp_path: Path) -> None:
    """An opening that is cancelled, as by Ctrl-C during the start, leaves a store that was closed, which opens again."""
    path = tmp_path / "store.db"
    await _fill(path)
    revision = 3
    opening = asyncio.create_task(SQLiteStorage(path).__aenter__())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert {name: status.st_size > 0 for name, status in _files(tmp_path).items()} == {"store.db": True, "store.db.lock": False}
    async with SQLiteStorage(path) as storage:
        assert await storage.revision() == revision


async def test_exit_without_closing(tmp_path: Path) -> None:
    """A process that exits with the store open leaves the log that the next start expects, and with it all writes."""
    path = tmp_path / "store.db"
    subprocess.run([sys.executable, "-c", _EXITED, str(path)], check=True)
    async with SQLiteStorage(path) as storage:
        assert await storage.revision() == 1


async def test_statements_are_compiled_once(tmp_path: Path) -> None:
    """A statement with a join is not compiled again for another key."""
    async with SQLiteStorage(tmp_path / "a.db") as storage:
        await storage.transact([], [Put("/a", b"x"), Put("/b", b"y")])
        connection = open_reading(str(tmp_path / "a.db"))
        accesses: list[str | None] = []  # SQLite asks for them when it compiles

        def allow(_action: int, table: str | None, *_rest: str | None) -> int:
            accesses.append(table)
            return apsw.SQLITE_OK

        connection.authorizer = allow
        compiled = []
        for key in ("/a", "/b", "/c"):
            connection.execute("SELECT v.value FROM current c CROSS JOIN value v ON v.seq = c.seq WHERE c.key = ?", (key,)).fetchall()
            compiled.append(len(accesses))
        connection.close()
    assert compiled == [compiled[0]] * 3


async def test_second_open_in_this_process(tmp_path: Path) -> None:
    """A file cannot be opened twice, even under another name, and the first store continues."""
    path, link = tmp_path / "store.db", tmp_path / "link.db"
    async with SQLiteStorage(path) as storage:
        link.symlink_to(path)
        for name in (path, link):
            with pytest.raises(LockedDatabaseError, match=f"process {os.getpid()}"):
                await SQLiteStorage(name).__aenter__()
        await storage.transact([], [Put("/a", b"x")])
    async with SQLiteStorage(link) as storage:
        assert await storage.revision() == 1


async def test_second_process(tmp_path: Path) -> None:
    """A file that another process has open is refused, with the process named; when that is killed, it is free."""
    path = tmp_path / "store.db"
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:  # noqa: ASYNC220 - nothing else runs
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(LockedDatabaseError, match=f"process {holder.pid}"):
                await SQLiteStorage(path).__aenter__()
            assert integrity_check(path) == []
        finally:
            holder.kill()
    async with SQLiteStorage(path) as storage:
        await storage.check()


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 3\x00"], ids=["short", "long", "only a beginning"])
async def test_no_database(tmp_path: Path, content: bytes) -> None:
    """A file that is not a database is refused and left unchanged."""
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(IncompatibleDatabaseError, match="not a database"):
        await SQLiteStorage(path).__aenter__()
    assert _snapshot(tmp_path) == {"store.db": content}
    assert integrity_check(path) != []


async def test_foreign_database(tmp_path: Path) -> None:
    """A database of another program is refused and left alone."""
    path = tmp_path / "store.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE current (key)").fetchall()
    connection.close()
    before = _snapshot(tmp_path)
    with pytest.raises(IncompatibleDatabaseError, match="another program"):
        await SQLiteStorage(path).__aenter__()
    assert _snapshot(tmp_path) == before
    assert integrity_check(path) == ["a database of another program"]


async def test_newer_database(tmp_path: Path) -> None:
    """A database of a newer version is refused and left alone."""
    path = tmp_path / "store.db"
    await _fill(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 7").fetchall()
    connection.close()
    before = _snapshot(tmp_path)
    with pytest.raises(IncompatibleDatabaseError, match="newer version"):
        await SQLiteStorage(path).__aenter__()
    assert _snapshot(tmp_path) == before
    assert "newer version" in integrity_check(path)[0]


@pytest.mark.parametrize(
    ("offset", "length"), [(100, 3996), (4096, 1 << 20), (200, 4000)], ids=["schema", "everything else", "around the first page"]
)
async def test_damaged_database(tmp_path: Path, offset: int, length: int) -> None:
    """Damage to the pages that a start reads is reported by the start, and nothing is changed."""
    path = tmp_path / "store.db"
    await _fill(path)
    content = bytearray(path.read_bytes())
    end = min(len(content), offset + length)
    content[offset:end] = b"\xa5" * (end - offset)
    path.write_bytes(content)
    with pytest.raises(CorruptDatabaseError, match="damaged"):
        await SQLiteStorage(path).__aenter__()
    assert path.read_bytes() == content
    assert integrity_check(path) != []


async def test_truncated_database(tmp_path: Path) -> None:
    """A file that lost its end is refused."""
    path = tmp_path / "store.db"
    await _fill(path)
    content = path.read_bytes()[: -3 * 4096]
    path.write_bytes(content)
    with pytest.raises(CorruptDatabaseError, match="damaged"):
        await SQLiteStorage(path).__aenter__()
    assert path.read_bytes() == content


async def test_integrity_check_finds_what_sqlite_cannot(tmp_path: Path) -> None:
    """Rows that do not fit together are found, each kind by its name."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        for _ in range(2):
            await storage.transact([], [Put("/a", b"1"), Put("/b", b"1")])
    connection = checksums.connect(str(path))
    connection.execute("DELETE FROM value WHERE seq = (SELECT seq FROM current WHERE key = '/a')").fetchall()
    connection.execute("UPDATE current SET seq = (SELECT min(seq) + 1 FROM history) WHERE key = '/b'").fetchall()
    connection.close()
    problems = integrity_check(path)
    assert "a key without a value: /a" in problems
    assert "a key whose last write is not its newest: /b" in problems


def test_integrity_check_of_nothing(tmp_path: Path) -> None:
    """A file that does not exist is a problem, and is not made."""
    assert integrity_check(tmp_path / "store.db") == [f"{tmp_path / 'store.db'} does not exist"]
    assert not (tmp_path / "store.db").exists()


async def test_missing_folder(tmp_path: Path) -> None:
    """A folder that does not exist is one clear error."""
    with pytest.raises(DatabaseFileError, match="No such file or directory"):
        await SQLiteStorage(tmp_path / "no" / "store.db").__aenter__()


async def test_empty_file(tmp_path: Path) -> None:
    """A file of no bytes may be all that is left of a store: it is refused with what to do, and left alone."""
    path = tmp_path / "store.db"
    path.touch()
    with pytest.raises(CorruptDatabaseError, match=r"is empty: put the file back or run kcp-py restore; .* remove it"):
        await SQLiteStorage(path).__aenter__()
    assert _snapshot(tmp_path) == {"store.db": b""}
    assert integrity_check(path)[0].startswith("empty")


async def test_missing_beside_its_log(tmp_path: Path) -> None:
    """A log without its database is not made the log of a new one."""
    path = tmp_path / "store.db"
    _write_and_be_killed(path)
    path.unlink()
    log = beside(path, "-wal").read_bytes()
    with pytest.raises(CorruptDatabaseError, match=r"store\.db is missing, but its write-ahead log"):
        await SQLiteStorage(path).__aenter__()
    assert not path.exists()
    assert beside(path, "-wal").read_bytes() == log


async def test_missing_log(tmp_path: Path) -> None:
    """A database whose log was removed after a kill is refused, because the log contains acknowledged writes."""
    path = tmp_path / "store.db"
    _write_and_be_killed(path)
    log = beside(path, "-wal")
    log.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(CorruptDatabaseError, match="is missing, and acknowledged writes with it"):
            await SQLiteStorage(path).__aenter__()
    (tmp_path / "away").rename(log)
    async with SQLiteStorage(path) as storage:
        assert await storage.revision() == _WRITES


@pytest.mark.parametrize("frame", [0, 3, -1], ids=["the header", "the middle", "the end"])
async def test_damaged_log(tmp_path: Path, frame: int) -> None:
    """A flipped bit in the log is told; where it takes acknowledged writes with it, the database is refused and left alone."""
    path = tmp_path / "store.db"
    _write_and_be_killed(path)
    log = beside(path, "-wal")
    content = bytearray(log.read_bytes())
    content[(32 + 4120 * frame + 100) if frame > 0 else 10 if frame == 0 else -1000] ^= 4
    log.write_bytes(content)
    assert any("write-ahead log" in problem for problem in integrity_check(path))
    if frame < 0:
        async with SQLiteStorage(path) as storage:
            assert await storage.revision() == _WRITES - 1
        return
    with pytest.raises(CorruptDatabaseError, match=r"write-ahead log is damaged.*kcp-py restore"):
        await SQLiteStorage(path).__aenter__()
    assert log.read_bytes() == content


async def test_cut_short_beside_a_log(tmp_path: Path) -> None:
    """A database that lost its end is refused also where a log is there that may hold pages of it."""
    path = tmp_path / "store.db"
    await _fill(path)
    _write_and_be_killed(path)
    content = path.read_bytes()[: -3 * 4096]
    path.write_bytes(content)
    with pytest.raises(CorruptDatabaseError, match=r"it has .* bytes, and should have"):
        await SQLiteStorage(path).__aenter__()
    assert path.read_bytes() == content
    assert any("should have" in problem for problem in integrity_check(path))


@pytest.mark.parametrize("how", ["hard link", "removed lock file"])
async def test_second_open_by_another_way(tmp_path: Path, how: str) -> None:
    """The database itself is locked: neither another name of the file nor a missing lock file lets a second store open it."""
    path, other = tmp_path / "store.db", tmp_path / "other.db"
    async with SQLiteStorage(path) as storage:
        if how == "hard link":
            other.hardlink_to(path)
        else:
            (tmp_path / "store.db.lock").unlink()
            other = path
        with pytest.raises(LockedDatabaseError, match="in use"):
            await SQLiteStorage(other).__aenter__()
        command = [sys.executable, "-c", _HOLDER, str(other)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert "LockedDatabaseError" in done.stderr
        assert await storage.transact([], [Put("/a", b"x")]) == 1
        assert integrity_check(path) == []
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        assert reader.execute("SELECT key FROM current").fetchall() == [("/a",)]
        reader.close()
    async with SQLiteStorage(path) as storage:
        assert await storage.revision() == 1


async def test_interrupted_creation(tmp_path: Path) -> None:
    """What a start left that was killed while it made the file does not disturb the next."""
    (tmp_path / "store.db.new").write_bytes(b"half")
    (tmp_path / "store.db.new-journal").write_bytes(b"half")
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        await storage.check()
    assert set(_files(tmp_path)) == {"store.db", "store.db.lock"}


async def test_full(tmp_path: Path) -> None:
    """A full store refuses writes whole, goes on with reads, takes what still fits, and writes again once there is space."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path, max_pages=40) as storage:
        await storage.transact([], [Put("/a", b"x" * 50_000)])
        with pytest.raises(NoSpaceError):
            await storage.transact([], [Put("/small", b"x"), Put("/b", b"x" * 150_000)])
        assert await storage.revision() == 1
        assert [item.key for item in (await storage.range("/")).items] == ["/a"]
        assert await storage.transact([], [Put("/c", b"x")]) == 2
        await storage.transact([], [Delete("/a")])
        with pytest.raises(NoSpaceError):
            await storage.transact([], [Put("/b", b"x" * 100_000)])
        await storage.compact(3)
        assert await storage.transact([], [Put("/b", b"x" * 100_000)]) == 4
    async with SQLiteStorage(path) as storage:
        assert await storage.transact([], [Put("/d", b"x" * 150_000)]) == 5
    assert integrity_check(path) == []


async def test_full_for_one_of_a_group(tmp_path: Path) -> None:
    """Of writes that are committed together, those that fit are not refused because of one that does not."""
    async with SQLiteStorage(tmp_path / "store.db", max_pages=40) as storage:
        puts = [Put(f"/{number}", b"x" * (500_000 if number == 5 else 10)) for number in range(10)]
        results = await asyncio.gather(*(storage.transact([], [put]) for put in puts), return_exceptions=True)
        assert [type(result) for result in results] == [NoSpaceError if number == 5 else int for number in range(10)]
        assert await storage.revision() == 9
        assert len((await storage.range("/")).items) == 9


async def test_foreign_lock_is_waited_for(tmp_path: Path) -> None:
    """A program that looks into the file and holds SQLite's write lock for a moment delays writes, no more."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        foreign = apsw.Connection(str(path))
        foreign.execute("BEGIN IMMEDIATE").fetchall()
        write = asyncio.create_task(storage.transact([], [Put("/a", b"x")]))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not write.done()
        foreign.execute("ROLLBACK").fetchall()
        assert await write == 1
        foreign.close()


def _place(folder: Path, kind: str) -> Path:
    """A path at which no database can be."""
    path = folder / "db"
    match kind:
        case "no folder":
            return folder / "none" / "db"
        case "file as folder":
            (folder / "file").write_text("x")
            return folder / "file" / "db"
        case "loop":
            path.symlink_to(path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            return Path("/dev/null")
        case _:
            return Path("/proc/db")
    return path


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("no folder", "No such file or directory"),
        ("file as folder", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("pipe", "not a regular file"),
        ("folder", "Is a directory"),
        pytest.param("device", "not a regular file", marks=pytest.mark.skipif(not Path("/dev/null").exists(), reason="no devices")),
        pytest.param("system", "No such file or directory", marks=pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")),
    ],
)
async def test_a_place_that_cannot_hold_a_database(tmp_path: Path, kind: str, problem: str) -> None:
    """The true cause is told, also where a file system counts no free bytes, and nothing is left behind."""
    path = _place(tmp_path, kind)
    before = _names(tmp_path, path.parent)
    with pytest.raises(DatabaseFileError, match=f"^cannot open {path}: {problem}$"):
        async with SQLiteStorage(path, reserve_bytes=1 << 20):
            pass
    assert _names(tmp_path, path.parent) == before


def _names(folder: Path, place: Path) -> set[str]:
    """The files below a directory, and the files of a store at a path."""
    return (
        {str(path) for path in folder.rglob("*")} | {str(path) for path in place.glob("db*")} | {str(path) for path in place.glob("null*")}
    )
