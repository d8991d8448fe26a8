"""A database of an older format is brought to the present one, whatever interrupts that."""

from __future__ import annotations

import signal
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from kcp_py.storage.sqlite import SQLiteStorage, integrity_check
from kcp_py.storage.sqlite.schema import CREATE, FORMAT, ORDINAL_BITS
from kcp_py.testing.dying import DIE_AT
from tests.forks import forked

pytestmark = pytest.mark.anyio

_OPENED = f"""
import asyncio
{DIE_AT}
from kcp_py.storage.sqlite import SQLiteStorage
async def open_until(path, line):
    die_at(line, ("database.py", "rewriting.py"))
    async with SQLiteStorage(path):
        pass
def main(path, line):
    asyncio.run(open_until(path, line))
"""


def make_format_1(path: Path, count: int = 50, *, killed: bool = False) -> None:
    """A database as versions with format 1 left it: keys with a value overwritten once, and every third deleted.

    Args:
        path: the file.
        count: of keys.
        killed: leave the last writes in the log, as a killed server did.
    """
    with closing(apsw.Connection(str(path))) as connection:
        for _ in connection.execute(CREATE.replace(f"user_version = {FORMAT}", "user_version = 1")):
            pass
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        for number in range(count):
            _write(connection, number)
    if killed:
        with closing(apsw.Connection(str(path))) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            _write(connection, count)
    path.chmod(0o600)


def _write(connection: apsw.Connection, number: int) -> None:
    first, second, third = ((3 * number + step) << ORDINAL_BITS for step in (1, 2, 3))
    created, key = 3 * number + 1, f"/k/{number:04}"
    connection.execute("BEGIN")
    connection.execute("INSERT INTO value VALUES (?, ?), (?, ?)", (first, b"old" * 500, second, b"new" * 500))
    connection.execute("INSERT INTO history VALUES (?, ?, 0, ?, 0), (?, ?, ?, ?, 0)", (first, key, created, second, key, first, created))
    if number % 3 == 0:
        connection.execute("INSERT INTO history VALUES (?, ?, ?, ?, 1)", (third, key, second, created))
    else:
        connection.execute("INSERT INTO current VALUES (?, ?, ?)", (key, second, created))
    connection.execute("COMMIT")


def _format(path: Path) -> tuple[int, int]:
    header = path.read_bytes()[:100]
    return int.from_bytes(header[60:64], "big"), header[20]


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


async def _content(path: Path) -> tuple[Any, list[Any]]:
    """The items now, and the events since the beginning."""
    async with SQLiteStorage(path) as storage:
        events: list[Any] = []
        async with aclosing(storage.watch("/", start_revision=1)) as batches:
            async for batch in batches:
                events += batch.events
                if batch.revision == await storage.revision():
                    return await storage.range("/"), events
    raise AssertionError("the watch ended")


@pytest.mark.parametrize("killed", [False, True])
async def test_an_older_database_is_taken_over(tmp_path: Path, *, killed: bool) -> None:
    """Items, history and revision of a database of format 1 are there, now with checksums."""
    path = tmp_path / "store.db"
    make_format_1(path, killed=killed)
    assert _format(path) == (1, 0)
    assert integrity_check(path) == []
    items, events = await _content(path)
    assert _format(path) == (FORMAT, 8)
    count = 51 if killed else 50
    assert [item.key for item in items.items] == [f"/k/{number:04}" for number in range(count) if number % 3]
    assert all(item.value == b"new" * 500 and item.mod_revision == item.create_revision + 1 for item in items.items)
    assert len(events) == 2 * count + (count + 2) // 3
    assert _names(tmp_path) == {"store.db", "store.db.lock"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert integrity_check(path) == []


@pytest.mark.slow
async def test_killed_at_every_step(tmp_path: Path) -> None:
    """Killed at any line of its code, the migration is done by the next start, and nothing is lost."""
    reference = tmp_path / "reference.db"
    make_format_1(reference, count=4, killed=True)
    wanted = await _content(reference)
    step = 0
    with forked(_OPENED) as open_until:
        while True:
            folder = tmp_path / str(step)
            folder.mkdir()
            path = folder / "store.db"
            make_format_1(path, count=4, killed=True)
            code = open_until(str(path), step)
            assert await _content(path) == wanted, f"killed at line {step}"
            assert integrity_check(path) == []
            assert _format(path) == (FORMAT, 8)
            if code == 0:
                break
            assert code == -signal.SIGKILL
            step += 4
    assert step > 40
