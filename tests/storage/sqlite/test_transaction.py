"""Which conflict a transaction reports, and what transactions of one commit see of each other."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcp_py.storage.contract import Compare, ConflictError, Delete, Event, Operation, Put, Storage, StorageError
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage


@pytest.mark.anyio
async def test_a_key_that_must_not_exist_is_reported_before_later_compares(tmp_path):
    """The first compare that fails is the conflict, with what the key holds, though a created key is not looked up beforehand."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        revision = await storage.transact([], [Put("/r/a", b"1"), Put("/r/guard", b"g")])
        absent = Compare("/r/a", mod_revision=0)
        for compares in ([absent], [absent, Compare("/r/guard", mod_revision=99)], [Compare("/r/guard", mod_revision=revision), absent]):
            with pytest.raises(ConflictError) as caught:
                await storage.transact(compares, [Put("/r/a", b"2"), Put("/r/b", b"2")])
            assert caught.value.key == "/r/a"
            assert caught.value.current is not None
            assert caught.value.current.value == b"1"
        with pytest.raises(ConflictError) as caught:
            await storage.transact([Compare("/r/c", mod_revision=0), Compare("/r/guard", mod_revision=99)], [Put("/r/c", b"2")])
        assert caught.value.key == "/r/guard"
        assert await storage.revision() == revision
        assert await storage.get("/r/b") is None
        assert await storage.get("/r/c") is None


@pytest.mark.anyio
async def test_of_two_creates_in_one_group_the_first_wins(tmp_path):
    """A create that follows another one of the same key in the same transaction of SQLite conflicts with it."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        absent = [Compare("/r/a", mod_revision=0)]
        first, second = await asyncio.gather(
            storage.transact(absent, [Put("/r/a", b"1")]), storage.transact(absent, [Put("/r/a", b"2")]), return_exceptions=True
        )
        found = await storage.get("/r/a")
    assert isinstance(second, ConflictError)
    assert second.current is not None
    assert second.current.value == b"1"
    assert found is not None
    assert (found.value, found.mod_revision) == (b"1", first)


def _transaction(draw: st.DrawFn) -> tuple[list[Compare], list[Operation]]:
    keys = st.sampled_from("abcd")
    compares = [
        Compare(f"/r/{key}", mod_revision=number)
        for key, number in draw(st.lists(st.tuples(keys, st.integers(0, 6)), max_size=2, unique_by=lambda pair: pair[0]))
    ]
    written = draw(st.lists(st.tuples(keys, st.booleans()), min_size=1, max_size=3, unique_by=lambda pair: pair[0]))
    return compares, [Put(f"/r/{key}", str(draw(st.integers(0, 99))).encode()) if puts else Delete(f"/r/{key}") for key, puts in written]


async def _outcomes(storage: Storage, groups: list[list[tuple[list[Compare], list[Operation]]]]) -> list[object]:
    """What the callers, readers of every revision and a watcher see of groups, each of which is submitted at once."""
    seen: list[object] = []
    for group in groups:
        results = await asyncio.gather(*(storage.transact(*transaction) for transaction in group), return_exceptions=True)
        seen.append([(result.key, result.current) if isinstance(result, ConflictError) else result for result in results])
        seen.append([await storage.get(f"/r/{key}") for key in "abcd"])
    wanted = await storage.revision()
    seen += [(await storage.range("/r/", revision=revision)).items for revision in range(1, wanted + 1)]
    if wanted:
        events: list[Event] = []
        async with aclosing(storage.watch("/r/", start_revision=1)) as watch:
            async for batch in watch:
                events += batch.events
                if batch.revision >= wanted:
                    break
        seen.append(events)
    return seen


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_groups_have_the_outcome_of_one_transaction_after_the_other(tmp_path_factory, data):
    """Answers, reads of every revision and events of concurrent transactions are those of the storage in memory, which has no groups."""
    groups = data.draw(st.lists(st.lists(st.composite(_transaction)(), min_size=1, max_size=6), max_size=4))

    async def compare() -> None:
        async with (
            MemoryStorage() as expected,
            SQLiteStorage(tmp_path_factory.mktemp("store") / "store.db", hot_keys=2) as storage,
        ):
            assert await _outcomes(storage, groups) == await _outcomes(expected, groups)

    asyncio.run(compare())


@pytest.mark.anyio
async def test_a_group_that_is_not_committed_is_not_remembered(tmp_path):
    """After a commit that failed, reads find the stored values, and later writes compare with them."""
    async with SQLiteStorage(tmp_path / "store.db") as storage:
        revision = await storage.transact([], [Put("/r/a", b"1")])
        writer = storage._opened().writer
        writer.connection.execute("PRAGMA query_only = on")
        with pytest.raises(StorageError):
            await storage.transact([Compare("/r/a", mod_revision=revision)], [Put("/r/a", b"2")])
        writer.connection.execute("PRAGMA query_only = off")
        found = await storage.get("/r/a")
        assert found is not None
        assert (found.value, found.mod_revision) == (b"1", revision)
        assert await storage.transact([Compare("/r/a", mod_revision=revision)], [Put("/r/a", b"3")]) == revision + 1
