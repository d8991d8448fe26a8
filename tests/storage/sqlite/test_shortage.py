"""A disk that is full: deletions work, the state is told, and the store recovers by itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcp_py.storage.contract import Compare, Delete, NoSpaceError, Put
from kcp_py.storage.sqlite import SQLiteStorage, integrity_check
from tests.small_disk import fill, small_disk

pytestmark = pytest.mark.anyio

_RESERVE = 4 << 20
_VALUE = b"x" * 20_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    with small_disk(tmp_path / "disk", 24) as folder:
        yield folder


async def _write_until_full(storage: SQLiteStorage) -> int:
    """How many writes were acknowledged."""
    number = 0
    while True:
        try:
            await storage.transact([Compare(f"/{number:04}", mod_revision=0)], [Put(f"/{number:04}", _VALUE)])
        except NoSpaceError:
            return number
        number += 1


async def test_deletions_work_on_a_full_disk(disk: Path) -> None:
    """When nothing fits any more, everything can be deleted; then there is room inside for new objects, and nothing was lost."""
    path = disk / "store.db"
    async with SQLiteStorage(path, reserve_bytes=_RESERVE) as storage:
        assert (disk / "store.db.reserve").stat().st_blocks * 512 >= _RESERVE
        for number in range(200):
            await storage.transact([], [Put(f"/before/{number}", _VALUE)])
        ballast = fill(disk)
        assert not storage.full
        count = await _write_until_full(storage)
        assert storage.full
        assert not (disk / "store.db.reserve").exists()
        items = (await storage.range("/")).items
        assert len(items) == count + 200
        # A mark on an object, such as a time of deletion, is small, and is taken.
        first = items[0]
        assert await storage.transact([Compare(first.key, mod_revision=first.mod_revision)], [Put(first.key, _VALUE + b"y")])
        for item in items:
            await storage.transact([], [Delete(item.key)])
        assert (await storage.range("/")).items == []
        while True:
            try:
                await storage.transact([], [Put("/new", _VALUE)])
                break
            except NoSpaceError:
                await asyncio.sleep(0.01)  # history is being forgotten
        ballast.unlink()
        while storage.full:
            await asyncio.sleep(0.01)
        assert (disk / "store.db.reserve").stat().st_blocks * 512 >= _RESERVE
        await storage.transact([], [Put("/large", b"x" * 3_000_000)])
    assert integrity_check(path) == []


async def test_a_start_on_a_full_disk(disk: Path) -> None:
    """If the disk became full while no server ran, the start releases the reserve and records it, and deletions work."""
    path = disk / "store.db"
    async with SQLiteStorage(path, reserve_bytes=_RESERVE) as storage:
        for number in range(20):
            await storage.transact([], [Put(f"/{number}", _VALUE)])
    ballast = fill(disk)
    async with SQLiteStorage(path, reserve_bytes=_RESERVE) as storage:
        assert storage.full
        await storage.transact([], [Delete("/3")])
        assert await storage.get("/3") is None
    fill(disk)
    with pytest.raises(NoSpaceError, match=r"no room is left on the disk of .*store\.db"):
        await SQLiteStorage(path, reserve_bytes=_RESERVE).__aenter__()
    ballast.unlink()
    async with SQLiteStorage(path, reserve_bytes=_RESERVE) as storage:
        assert not storage.full
        assert len((await storage.range("/")).items) == 19
    assert integrity_check(path) == []


async def test_killed_on_a_full_disk(disk: Path) -> None:
    """Writes that were acknowledged before a kill on a full disk are kept."""
    path = disk / "store.db"
    script = (
        "import asyncio, os, signal, sys\n"
        "sys.path.insert(0, sys.argv[3])\n"
        "from pathlib import Path\n"
        "from kcp_py.storage.contract import Delete, Put\n"
        "from kcp_py.storage.sqlite import SQLiteStorage\n"
        "from tests.small_disk import fill\n"
        "from tests.storage.sqlite.test_shortage import _write_until_full\n"
        "async def main():\n"
        "    async with SQLiteStorage(sys.argv[1], reserve_bytes=int(sys.argv[2])) as storage:\n"
        "        for number in range(50):\n"
        "            await storage.transact([], [Put(f'/before/{number}', b'x')])\n"
        "        fill(Path(sys.argv[1]).parent)\n"
        "        count = await _write_until_full(storage)\n"
        "        await storage.transact([], [Delete('/before/0')])\n"
        "        print(count, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", script, str(path), str(_RESERVE), root], capture_output=True, text=True, check=False)
    count = int(done.stdout.split()[-1])
    async with SQLiteStorage(path, reserve_bytes=_RESERVE) as storage:
        assert len((await storage.range("/")).items) == count + 49
        await storage.transact([], [Delete("/before/1")])
    assert integrity_check(path) == []
