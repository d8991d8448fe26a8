"""Wrong bits: each is found by the check of the whole file, and none is served."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from kcp_py.storage.contract import CompactedError, DamagedError, Delete, KeyValue, Put, StorageError, readable
from kcp_py.storage.sqlite import SQLiteStorage, integrity_check
from tests.storage.sqlite.test_database import beside

pytestmark = pytest.mark.anyio

_FLIPS = 100
_ROOT = Path(__file__).parents[3]
_FILLED_AND_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from kcp_py.storage.sqlite import SQLiteStorage
from tests.storage.sqlite.test_integrity import fill
async def main():
    async with SQLiteStorage(Path(sys.argv[1])) as storage:
        await fill(storage)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def value_of(key: str) -> bytes:
    """A value, by its key: of some bytes, of a few hundred, and of some pages."""
    chance = random.Random(key)
    return chance.randbytes(chance.choice([20, 400, 9000])).replace(b"\x00", b"\x01")


async def fill(storage: SQLiteStorage) -> None:
    """Rows in all tables, some of them overwritten, some deleted, some compacted, and pages that are free again."""
    keys = [f"/{resource}/{cluster}/{number}" for resource in "ab" for cluster in "xyz" for number in range(40)]
    await storage.transact([], [Put(key, b"z" * 5000) for key in keys])
    await storage.transact([], [Put(key, value_of(key)) for key in keys])
    await storage.compact(2)
    for key in keys[::5]:
        await storage.transact([], [Put(key, value_of(key))])
    await storage.transact([], [Delete(key) for key in keys[::7]])


async def _served(storage: SQLiteStorage, truth: dict[str, bytes]) -> int:
    """Read everything in every way, and compare; returns how many reads were refused."""
    refused = 0

    def check(items: list[KeyValue]) -> None:
        for item in items:
            assert truth[item.key] == item.value

    for key, value in truth.items():
        try:
            item = await storage.get(key)
            assert item is not None
            assert item.value == value
        except DamagedError as error:
            refused += error.keys == (key,)
    for prefix in ("/", "/a/", "/b/y/"):
        wanted = {key for key in truth if key.startswith(prefix)}
        try:
            found = await storage.range(prefix)
            assert {item.key for item in found.items} == wanted
            check(found.items)
        except DamagedError as error:
            refused += 1
            damage = error
        else:
            continue
        assert damage.found is not None
        assert {item.key for item in damage.found.items} <= wanted - set(damage.keys)
        check(damage.found.items)
    try:
        revision = await storage.revision()
        async with aclosing(storage.watch("/", start_revision=3)) as batches:
            async for batch in batches:
                for event in batch.events:
                    assert event.value is None or event.value == value_of(event.key)
                if batch.revision >= revision:
                    break
    except CompactedError:
        refused += 1
    return refused


async def test_every_flip_is_found_and_none_is_served(tmp_path: Path) -> None:
    """The check finds each of a hundred flipped bits, and every read is correct or refused with the key."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        await fill(storage)
        truth = {item.key: item.value for item in (await storage.range("/")).items}
    assert integrity_check(path) == []
    content = path.read_bytes()
    refusals = 0
    for seed in range(_FLIPS):
        bit = random.Random(seed).randrange(len(content) * 8)
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert integrity_check(path), f"bit {bit} of page {bit // 8 // 4096 + 1}"
        try:
            async with SQLiteStorage(path) as storage:
                refusals += await _served(storage, truth)
        except StorageError as error:
            refusals += any(text in str(error) for text in ("damaged", "not a database", "another program", "newer version"))
        for ending in ("-wal", "-shm"):
            beside(path, ending).unlink(missing_ok=True)
        beside(path, ".lock").unlink(missing_ok=True)
    assert refusals > _FLIPS


async def test_every_flip_in_the_log_is_found(tmp_path: Path) -> None:
    """Of a hundred flipped bits in the log of a killed server each is found."""
    path = tmp_path / "store.db"
    subprocess.run([sys.executable, "-c", _FILLED_AND_KILLED, str(path), str(_ROOT)], check=False)
    log, main = beside(path, "-wal"), path.read_bytes()
    content = log.read_bytes()
    assert integrity_check(path) == []
    beside(path, "-shm").unlink()
    for seed in range(_FLIPS):
        bit = random.Random(seed).randrange(len(content) * 8)
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        log.write_bytes(damaged)
        assert integrity_check(path), f"bit {bit} of frame {(bit // 8 - 32) // 4120 + 1}"
        beside(path, "-shm").unlink(missing_ok=True)
        assert path.read_bytes() == main


async def test_what_is_damaged_is_refused_by_its_name(tmp_path: Path) -> None:
    """A damaged value is an error of its key and of ranges that hold it; the rest is read, by all who ask for it."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put(f"/{cluster}/{number}", b"1" * 3000) for cluster in "xyz" for number in range(9) if number != 4])
        await storage.transact([], [Put(f"/{cluster}/4", f"{cluster}4 ".encode() * 3000) for cluster in "xyz"])
    content = bytearray(path.read_bytes())
    content[content.index(b"y4 " * 1350) + 9] ^= 8  # on a page that holds nothing else
    path.write_bytes(content)
    assert "the value of /y/4 cannot be read" in integrity_check(path)
    async with SQLiteStorage(path) as storage:
        with pytest.raises(DamagedError, match="/y/4 is damaged") as caught:
            await storage.get("/y/4")
        assert caught.value.keys == ("/y/4",)
        assert len((await storage.range("/x/")).items) == len((await storage.range("/z/")).items) == 9
        assert len((await storage.range("/y/", keys_only=True)).items) == 9
        with pytest.raises(DamagedError, match="/y/4 is damaged"):
            await storage.range("/y/")
        rest = await readable(storage.range("/", count=True))
        keys = [f"/{cluster}/{number}" for cluster in "xyz" for number in range(9)]
        assert [item.key for item in rest.items] == [key for key in keys if key != "/y/4"]
        page = await readable(storage.range("/", start="/y/3", limit=2))
        assert [item.key for item in page.items] == ["/y/3", "/y/5"]
        assert page.more
        with pytest.raises(DamagedError, match="/y/4 is damaged"):
            await storage.transact([], [Put("/y/4", b"2")])
        assert await storage.transact([], [Put("/y/5", b"2")]) == 3
        with pytest.raises(CompactedError):
            async with aclosing(storage.watch("/y/", start_revision=1)) as batches:
                await anext(batches)


async def test_a_damaged_index_hides_its_own_keys_only(tmp_path: Path) -> None:
    """Where keys themselves cannot be read, those before and behind them can, and none counts as absent."""
    path = tmp_path / "store.db"
    keys = [f"/{'k' * 100}/{number:04}" for number in range(400)]
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put(key, b"v") for key in keys])
    path.write_bytes(path.read_bytes().replace(keys[200].encode(), keys[200].replace("k", "j").encode()))
    async with SQLiteStorage(path) as storage:
        with pytest.raises(DamagedError):
            await storage.get(keys[200])
        with pytest.raises(DamagedError) as caught:
            await storage.range("/")
        assert caught.value.found is not None
        found = [item.key for item in caught.value.found.items]
        assert found == sorted(found)
        assert {keys[0], keys[-1]} <= set(found) < set(keys)
        assert len(found) > len(keys) - 50
