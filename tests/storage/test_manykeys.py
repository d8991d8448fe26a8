"""Many single keys at once, with drivers that have a method for that and with others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcp_py.storage.contract import DamagedError, Delete, KeyValue, Put, Storage
from kcp_py.storage.manykeys import ReadsManyKeys, read_each
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.wrapping import WrappedStorage

pytestmark = pytest.mark.anyio

_LARGE = b"marker" * 2000


@pytest.mark.parametrize("driver", ["memory", "sqlite", "wrapped"])
async def test_each_key_is_what_get_returns(driver: str, tmp_path: Path) -> None:
    """In the order of the keys, with None for those that do not exist, however often one is named."""
    made: Storage = SQLiteStorage(tmp_path / "store.db") if driver == "sqlite" else MemoryStorage()
    async with WrappedStorage(made) if driver == "wrapped" else made as storage:
        assert isinstance(storage, ReadsManyKeys) is (driver != "wrapped")
        names = [f'/a/{number}/"é\\' for number in range(200)]
        for start in range(0, 200, 50):
            await storage.transact((), [Put(name, name.encode()) for name in names[start : start + 50]])
        await storage.transact((), [Put(names[3], b"again"), Delete(names[5])])
        asked = [*reversed(names), "/a", "/a/3", names[7], names[7]]
        assert await read_each(storage, asked) == [await storage.get(name) for name in asked]
        assert await read_each(storage, []) == []


async def test_a_write_while_keys_are_read(tmp_path: Path) -> None:
    """Each value is one that was acknowledged before or during the read, and later reads of the store are not held back by it."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        names = [f"/a/{number:03}" for number in range(300)]
        await storage.transact((), [Put(name, b"x" * 3_000) for name in names])
        reading = asyncio.ensure_future(storage.get_each(names))
        revision = await storage.transact((), [Put(names[-1], b"new")])
        found = await reading
        assert [item.key for item in found if item is not None] == names
        assert await storage.get(names[-1]) == KeyValue(names[-1], b"new", revision, 1)
        assert (await storage.get_each(names[-1:]))[0] == await storage.get(names[-1])


async def test_a_read_that_is_cancelled_ends_its_snapshot(tmp_path: Path) -> None:
    """Further reads see later writes."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        names = [f"/a/{number:03}" for number in range(400)]
        await storage.transact((), [Put(name, b"x" * 20_000) for name in names])
        for turns in range(6):
            reading = asyncio.ensure_future(storage.get_each(names))
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await storage.transact((), [Put(names[0], b"%d" % turns)])
            (found,) = await storage.get_each(names[:1])
            assert found is not None
            assert found.value == b"%d" % turns


async def test_a_damaged_value_is_named(tmp_path: Path) -> None:
    """A damaged value makes the read fail with its key, and no other key fails."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        await storage.transact([], [Put("/a/first", b"1")])  # the first row is read when the file is opened
        await storage.transact([], [Put("/a/damaged", _LARGE)])
    content = path.read_bytes()
    at = content.rindex(_LARGE[:600])  # in the last page of the value, which holds nothing else
    path.write_bytes(content[:at] + b"?" + content[at + 1 :])
    async with SQLiteStorage(path) as storage:
        with pytest.raises(DamagedError) as raised:
            await read_each(storage, ["/a/first", "/a/damaged"])
        assert raised.value.keys == ("/a/damaged",)
        assert [item and item.value for item in await read_each(storage, ["/a/first", "/a/none"])] == [b"1", None]
