"""Tests of `compact`."""

from __future__ import annotations

import pytest

from kcp_py.storage.contract import CompactedError, FutureRevisionError, KeyValue, Put, Storage
from kcp_py.storage.oldkeys import read_at
from kcp_py.testing.storage_calls import create, delete, events_between, put


class CompactionTests:
    """Tests of `compact` and of later reads."""

    async def test_present_state_stays(self, storage: Storage) -> None:
        """Compaction keeps the current state and the state at its revision."""
        first = await create(storage, "/a", b"1")
        await create(storage, "/gone")
        await delete(storage, "/gone")
        then = await put(storage, "/a", b"2")
        last = await put(storage, "/a", b"3")
        await storage.compact(then)
        assert await storage.get("/a") == KeyValue("/a", b"3", last, first)
        assert (await storage.range("/")).items == [KeyValue("/a", b"3", last, first)]
        assert (await storage.range("/", revision=then)).items == [KeyValue("/a", b"2", then, first)]
        assert await storage.revision() == last

    async def test_compacted_reads(self, storage: Storage) -> None:
        """Reads before the compacted revision fail with the oldest available revision."""
        first = await create(storage, "/a", b"1")
        second = await put(storage, "/a", b"2")
        await storage.compact(second)
        with pytest.raises(CompactedError) as caught:
            await storage.range("/", revision=first)
        assert caught.value.compact_revision == second
        with pytest.raises(CompactedError):
            await read_at(storage, "/a", first)

    async def test_compacted_watches(self, storage: Storage) -> None:
        """Watches from the compacted revision on fail at once; those from the next revision on deliver previous values."""
        first = await create(storage, "/a", b"1")
        second = await put(storage, "/a", b"2")
        third = await put(storage, "/a", b"3")
        await storage.compact(second)
        with pytest.raises(CompactedError) as caught:
            await events_between(storage, "/", second, third)
        assert caught.value.compact_revision == second
        (event,) = await events_between(storage, "/", third, third)
        assert (event.value, event.previous) == (b"3", KeyValue("/a", b"2", second, first))

    async def test_compaction_at_the_present(self, storage: Storage) -> None:
        """All history can be compacted; the revision and later writes are not affected."""
        await create(storage, "/a", b"1")
        last = await delete(storage, "/a")
        await storage.compact(last)
        assert await storage.revision() == last
        assert (await storage.range("/", revision=last)).items == []
        following = await create(storage, "/a", b"2")
        assert following == last + 1
        (event,) = await events_between(storage, "/", following, following)
        assert event.previous is None

    async def test_compaction_goes_forward(self, storage: Storage) -> None:
        """A compacted revision and a future revision are refused."""
        first = await create(storage, "/a")
        second = await create(storage, "/b")
        await storage.compact(second)
        for revision in (first, second):
            with pytest.raises(CompactedError) as caught:
                await storage.compact(revision)
            assert caught.value.compact_revision == second
        with pytest.raises(FutureRevisionError):
            await storage.compact(second + 1)

    async def test_compaction_of_much(self, storage: Storage) -> None:
        """Much history is removed during concurrent writes, which are not disturbed."""
        for generation in range(6):
            last = await storage.transact([], [Put(f"/n/{number}", b"%d" % generation) for number in range(450)])
        await storage.compact(last)
        for number in range(30):
            revision = await put(storage, f"/n/{number}", b"new")
        result = await storage.range("/n/", count=True)
        assert result.total == 450
        assert sum(item.value == b"new" for item in result.items) == 30
        assert {item.value for item in result.items} == {b"new", b"5"}
        then = await storage.range("/n/", revision=last)
        assert {item.value for item in then.items} == {b"5"}
        events = await events_between(storage, "/", last + 1, revision)
        assert [event.previous.value for event in events if event.previous is not None] == [b"5"] * 30
