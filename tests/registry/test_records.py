"""Records of the server in its store: `tests/client/test_records.py` has the same with the errors of clients."""

from __future__ import annotations

import pytest

from kcp_py.registry.records import Records
from kcp_py.storage.contract import DamagedError, KeyValue, NoSpaceError, Put
from kcp_py.storage.keys import internal_key
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.wrapping import WrappedStorage

pytestmark = pytest.mark.anyio

ROOT = "/registry"


class _Full(WrappedStorage):
    async def transact(self, *_: object) -> int:
        raise NoSpaceError("full")


class _Damaged(WrappedStorage):
    async def get(self, key: str) -> KeyValue | None:
        raise DamagedError([key])


async def test_a_record_is_of_its_store() -> None:
    """It is read back, and not used in another store that has got a copy of its key."""
    async with MemoryStorage() as storage, MemoryStorage() as copy:
        records = Records(storage, ROOT)
        assert await records.load("note") is None
        written = await records.save("note", {"revision": 0, "text": "a"})
        assert (await records.load("note") or {})["text"] == "a"
        item = await storage.get(internal_key(ROOT, "note"))
        assert item is not None
        assert item.mod_revision == written
        await copy.transact((), [Put("/other", b"1")])
        await copy.transact((), [Put(item.key, item.value)])
        await copy.transact((), [Put(item.key, item.value)])
        assert await Records(copy, ROOT).load("note") is None


async def test_errors_are_those_of_the_store() -> None:
    """A full store refuses a record."""
    async with _Full(MemoryStorage()) as storage:
        with pytest.raises(NoSpaceError):
            await Records(storage, ROOT).save("note", {"revision": 0})


async def test_a_damaged_record_is_none() -> None:
    """What it said is found without it, as before the first record."""
    async with _Damaged(MemoryStorage()) as storage:
        assert await Records(storage, ROOT).load("note") is None
