"""A disk that fails writes or syncs, and power that fails: no acknowledged write is lost, and the store goes on by itself."""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from kcp_py.storage.contract import Compare, Put, UnavailableError
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.sqlite import SQLiteStorage, integrity_check
from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.locks import FileLock
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.recovery import reopen
from kcp_py.storage.sqlite.transaction import Transactions
from tests.power_failure import Disk, load

_FAILURES = 100
_ROOT = Path(__file__).parents[3]

_LIMITED = """
import asyncio, resource, sys
from contextlib import aclosing
from kcp_py.storage.contract import Delete, Put, UnavailableError
from kcp_py.storage.contract import Put, UnavailableError
from kcp_py.storage.sqlite import SQLiteStorage, integrity_check
async def main(path):
    async with SQLiteStorage(path, checkpoint_bytes=1 << 30) as storage:
        acknowledged = {}
        async def write(key):
            acknowledged[await storage.transact([], [Put(key, b"x" * 3000)])] = key
        for number in range(20):
            await write(f"/before/{number}")
        watch = storage.watch("/", start_revision=1)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
        number = failures = 0
        while not failures:
            number += 1
            try:
                await write(f"/meanwhile/{number}")
            except UnavailableError:
                failures += 1
        try:
            await storage.check()
        except UnavailableError:
            failures += 1
        assert failures == 2
        assert len((await storage.range("/before/")).items) == 20
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        while True:
            try:
                await write("/after")
                break
            except UnavailableError:
                await asyncio.sleep(0.01)
        await storage.check()
        revision = await storage.revision()
        seen = {}
        async with aclosing(watch):
            async for batch in watch:
                for event in batch.events:
                    assert event.mod_revision not in seen
                    seen[event.mod_revision] = event.key
                if batch.revision >= revision:
                    break
        assert sorted(seen) == list(range(1, revision + 1))
        assert acknowledged.items() <= seen.items()
        items = {item.mod_revision: item.key for item in (await storage.range("/")).items}
        assert items == seen
    assert integrity_check(path) == []
    print("recovered")
asyncio.run(main(sys.argv[1]))
"""


_RECORDED = """
import asyncio, random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.power_failure import Recorder
path, log, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4]
recorder = Recorder(path.parent)
from kcp_py.storage.contract import Put, UnknownOutcomeError, UnavailableError
from kcp_py.storage.sqlite import SQLiteStorage

async def main():
    chance = random.Random(how)
    number = 0
    for life in range(3):
        # A store whose file and log both failed to sync refuses writes until it is opened again.
        recorder.sync_fails = lambda name: False
        async with SQLiteStorage(path, checkpoint_bytes=150_000) as storage:
            async def write():
                nonlocal number
                number += 1
                key, value = f"/k/{chance.randrange(30)}", f"{life} {how} {number} ".encode() * chance.choice([2, 100, 2000])
                recorder.note(("unknown", key, value))
                try:
                    revision = await storage.transact([], [Put(key, value)])
                except UnknownOutcomeError:
                    if how == "killed":
                        recorder.kill(log)
                    while True:
                        try:
                            await storage.check()
                            break
                        except UnavailableError:
                            await asyncio.sleep(0.01)
                else:
                    recorder.note((revision, key, value))

            if life:
                await storage.compact(await storage.revision() - 3)
            for turn in range(20):
                if how != "sound" and turn % 6 == 5:
                    left = iter([True] * chance.choice([1, 2]) + [False] * 1_000_000)
                    ending = "-wal" if how == "killed" else ["-wal", ".db", "-wal"][life]
                    recorder.sync_fails = lambda name: name.endswith(ending) and next(left)
                await asyncio.gather(*(write() for _ in range(chance.choice([1, 1, 2, 6]))))
        recorder.note("closed")
    recorder.save(log)

asyncio.run(main())
"""


class _Write(NamedTuple):
    revision: int
    key: str
    value: bytes


async def _opens_with(path: Path, acknowledged: list[_Write], uncertain: set[tuple[str, bytes]]) -> None:
    """The store opens undamaged, accepts writes, and contains all acknowledged writes and no others but those with an unknown outcome."""
    async with SQLiteStorage(path) as storage:
        found = {item.mod_revision: (item.key, item.value) for item in (await storage.range("/")).items}
        revision = await storage.revision()
    newest = {write.key: write for write in acknowledged}
    assert revision >= max((write.revision for write in acknowledged), default=0)
    present = {key: (at, value) for at, (key, value) in found.items()}
    for write in newest.values():
        at, value = present.pop(write.key)
        assert (at, value) == (write.revision, write.value) or (at > write.revision and (write.key, value) in uncertain)
    assert {(key, value) for key, (_, value) in present.items()} <= uncertain
    assert integrity_check(path) == []


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["sound", "failing", "killed"])
async def test_the_power_fails(tmp_path: Path, how: str) -> None:
    """Whenever the power fails, all that was acknowledged is there, also where syncs had failed, or a kill had followed."""
    path, log = tmp_path / "live" / "store.db", tmp_path / "log"
    path.parent.mkdir()
    steps = []
    for run in ["killed", "sound"] if how == "killed" else [how]:
        command = [sys.executable, "-c", _RECORDED, str(path), str(log), str(_ROOT), run]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == (9 if run == "killed" else 0), done.stderr
        steps += load(log)
    assert any(step.kind == "lost" for step in steps) == (how != "sound")
    writes = {tuple(step.file[1:]) for step in steps if step.kind == "note" and step.file != "closed"}
    chance = random.Random(7)
    disk = Disk(chance)
    failures = {chance.randrange(len(steps)) for _ in range(_FAILURES)}
    for number, step in enumerate(steps):
        if step.kind in ("name", "rename", "remove"):
            failures |= {number - 1, number, number + 1, number + 2}
    for number, step in enumerate(steps):
        disk.run(step)
        if number in failures:
            left = tmp_path / "left"
            disk.fail(left)
            acknowledged = [_Write(*noted) for noted in disk.noted if noted != "closed" and noted[0] != "unknown"]
            await _opens_with(left / path.name, acknowledged, writes)
            shutil.rmtree(left)


def test_a_write_that_fails_is_recovered_from(tmp_path: Path) -> None:
    """After a commit that the system refused, the store says so, opens its file anew, and goes on with all that was acknowledged."""
    done = subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path / "store.db")], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("recovered\n"), done.stderr
    assert "storage_write_failed" in done.stdout
    assert "storage_reopened" in done.stdout


def test_a_copy_is_not_completed_while_its_sync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an incomplete copy of the log could not be synced, no other thread has completed it, so that the log is not overwritten."""
    path = tmp_path / "store.db"
    database = Database(path)
    writer, reader, copying = database.connect(writer=True), database.connect(), database.connect()
    write = "UPDATE meta SET number = number + 1 WHERE name = 'compact_revision'"
    writer.execute(write)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    writer.execute(write)

    def fail(_: FileLock) -> None:
        reader.execute("ROLLBACK")
        completing = threading.Thread(target=lambda: database.copy_log(writer))
        completing.start()
        completing.join()
        raise OSError(errno.EIO, "the disk failed")

    monkeypatch.setattr(FileLock, "sync", fail)
    database.copy_log(copying)
    log = Path(f"{path}-wal")
    kept = log.read_bytes()
    writer.execute(write)
    assert len(log.read_bytes()) > len(kept)
    assert log.read_bytes().startswith(kept)
    for connection in (reader, copying):
        connection.close()
    database.close_writer(writer)
    database.close()
    assert log.read_bytes().startswith(kept)


def test_reopening_after_a_failed_sync_writes(tmp_path: Path) -> None:
    """The file counts as opened again only after a commit that wrote into the empty log, so that the disk is known to take writes."""
    path = tmp_path / "store.db"
    database = Database(path)
    writer, reader = database.connect(writer=True), database.connect()
    writer.execute("UPDATE meta SET number = number + 1 WHERE name = 'compact_revision'")
    writer, _ = reopen(database, writer, unsynced=True)
    assert Path(f"{path}-wal").stat().st_size > 0
    reader.close()
    database.close_writer(writer)
    database.close()


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["removed", "renamed", "replaced", "folder renamed"])
async def test_a_file_that_is_moved_under_the_store(tmp_path: Path, how: str) -> None:
    """No write is taken once it is seen that the path names another file or none; with the file back, they are taken again."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path, second = folder / "store.db", folder / "second.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/before", b"x")])
        await storage.check()
        second.hardlink_to(path)
        if how == "folder renamed":
            folder.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        if how == "replaced":
            shutil.copy(second, path)
        with pytest.raises(UnavailableError, match="was moved, removed or replaced"):
            await storage.check()
        with pytest.raises(UnavailableError, match="was moved, removed or replaced"):
            await storage.transact([], [Put("/meanwhile", b"x")])
        assert await storage.get("/before") is not None
        if how == "folder renamed":
            (tmp_path / "elsewhere").rename(folder)
        else:
            path.unlink(missing_ok=True)
            second.rename(path)
        while True:
            try:
                await storage.transact([], [Put("/after", b"x")])
                break
            except UnavailableError:
                await asyncio.sleep(0.01)
        await storage.check()
    async with SQLiteStorage(path) as storage:
        assert [item.key for item in (await storage.range("/")).items] == ["/after", "/before"]
    assert integrity_check(path) == []


@pytest.mark.anyio
async def test_a_failed_commit_that_is_complete_is_what_reads_find(tmp_path: Path) -> None:
    """A key that was read before the file was reopened is read anew: a commit whose outcome was unknown may have changed it."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        await storage.transact([], [Put("/a", b"old")])
        found = await storage.get("/a")
        assert found is not None
        assert found.value == b"old"
        parts = storage._opened()
        # As a commit that failed and is in the file: another connection carries it out.
        connection = parts._database.connect(writer=True)
        connection.execute("BEGIN IMMEDIATE")
        transactions = Transactions(connection, HotKeys(max_keys=1, max_bytes=1), RangeCache(max_bytes=1), RecentWrites(0))
        assert transactions.carry_out([], [Put("/a", b"new")], found.mod_revision + 1, events=[]) is None
        assert list(transactions.flush())
        connection.execute("COMMIT")
        connection.close()
        parts.writer.pause(UnavailableError("the outcome of a commit is unknown"))
        while parts.writer.broken is not None:
            await asyncio.sleep(0)
        found = await storage.get("/a")
        assert found is not None
        assert (found.value, found.mod_revision) == (b"new", await storage.revision())
        compare = [Compare("/a", mod_revision=found.mod_revision)]
        assert await storage.transact(compare, [Put("/a", b"newer")]) == found.mod_revision + 1
