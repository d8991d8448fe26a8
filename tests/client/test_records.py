"""Records of controllers in the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from kcp_py.client.records import StoreRecords
from kcp_py.storage.contract import Compare, Operation, Put
from kcp_py.storage.keys import internal_key
from kcp_py.storage.memory import MemoryStorage

pytestmark = pytest.mark.anyio

ROOT = "/registry"
KEY = internal_key(ROOT, "note")


@pytest.fixture
async def storage() -> AsyncIterator[MemoryStorage]:
    async with MemoryStorage() as opened:
        yield opened


async def test_a_record_covers_its_own_write(storage: MemoryStorage) -> None:
    """Where nothing was written between, its revision is that of its write, which a compaction may reach."""
    records = StoreRecords(storage, ROOT)
    assert await records.load("note") is None
    await records.save("note", {"revision": 0})
    await storage.transact([], [Put("/x", b"x")])
    before = await storage.revision()
    written = await records.save("note", {"revision": before, "text": "a"})
    found = await records.load("note")
    assert found is not None
    assert (found["revision"], found["text"]) == (written, "a")
    await storage.transact([], [Put("/x", b"y")])
    await records.save("note", {"revision": before})
    found = await records.load("note")
    assert found is not None
    assert found["revision"] == before


@pytest.mark.parametrize("value", [b"{", b"[]", b"1", b'{"revision":1}', b'{"created":1,"revision":"1"}', b'{"created":1,"revision":1}'])
async def test_what_is_no_record_is_not_used(storage: MemoryStorage, value: bytes) -> None:
    """Other software has stored something else, or the record speaks of a revision that is not before its write."""
    await storage.transact([], [Put(KEY, value)])
    assert await StoreRecords(storage, ROOT).load("note") is None


async def test_a_copy_in_another_store_is_not_used(storage: MemoryStorage) -> None:
    """Revisions mean something else there."""
    await StoreRecords(storage, ROOT).save("note", {"revision": 0})
    item = await storage.get(KEY)
    assert item is not None
    async with MemoryStorage() as other:
        for name in ("/a", "/b", "/c"):
            await other.transact([], [Put(name, b"x")])
        await other.transact([], [Put(KEY, item.value)])
        assert await StoreRecords(other, ROOT).load("note") is None


class Raced(MemoryStorage):
    """Another process writes the record before each write of this one."""

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        await super().transact([], [Put(KEY, b"{}")])
        return await super().transact(compares, operations)


async def test_the_record_of_another_process_stays() -> None:
    """A write that another one overtook is not repeated."""
    async with Raced() as storage:
        assert await StoreRecords(storage, ROOT).save("note", {"revision": 0}) == 0
        item = await storage.get(KEY)
        assert item is not None
        assert item.value == b"{}"
