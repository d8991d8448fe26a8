"""What the driver does beyond the suite that all drivers pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    Delete,
    Event,
    FutureRevisionError,
    KeyValue,
    NoSpaceError,
    Put,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
    WatchBatch,
)
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage

pytestmark = pytest.mark.anyio


async def test_create_update_delete(storage, prefix):
    """Compares on absence and on revisions hold exactly when they should, and a failed one shows the key as it stands."""
    key = prefix + "a"
    first = await storage.transact([Compare(key, mod_revision=0)], [Put(key, b"1")])
    with pytest.raises(ConflictError) as conflict:
        await storage.transact([Compare(key, mod_revision=0)], [Put(key, b"x")])
    assert (conflict.value.key, conflict.value.current) == (key, KeyValue(key, b"1", first, first))
    second = await storage.transact([Compare(key, mod_revision=first, create_revision=first)], [Put(key, b"2")])
    assert await storage.get(key) == KeyValue(key, b"2", second, first)
    with pytest.raises(ConflictError):
        await storage.transact([Compare(key, mod_revision=first)], [Delete(key)])
    await storage.transact([Compare(key, create_revision=first)], [Delete(key)])
    assert await storage.get(key) is None
    with pytest.raises(ConflictError) as gone:
        await storage.transact([Compare(key, mod_revision=second)], [Put(key, b"x")])
    assert gone.value.current is None


async def test_first_failing_compare_is_named(storage, prefix):
    """Of several failing compares the first in the order given is reported."""
    await storage.transact([], [Put(prefix + "b", b"1")])
    compares = [Compare(prefix + "a", mod_revision=0), Compare(prefix + "c", mod_revision=9), Compare(prefix + "b", mod_revision=0)]
    with pytest.raises(ConflictError) as conflict:
        await storage.transact(compares, [Put(prefix + "a", b"x")])
    assert (conflict.value.key, conflict.value.current) == (prefix + "c", None)


async def test_deleting_nothing_leaves_the_revision(storage, prefix):
    """A transaction that changes nothing answers with the present revision and does not raise it."""
    before = await storage.revision()
    assert await storage.transact([], [Delete(prefix + "none")]) >= before
    assert await storage.transact([Compare(prefix + "none", mod_revision=0)], []) >= before
    assert await storage.transact([], []) == await storage.revision()


async def test_transaction_larger_than_etcd_allows_in_one_level(storage, prefix):
    """500 operations are one transaction with one revision, though etcd allows 128 in one level; a conflict still writes none."""
    keys = [f"{prefix}{index:03}" for index in range(500)]
    revision = await storage.transact([Compare(keys[0], mod_revision=0)], [Put(key, b"v") for key in keys])
    result = await storage.range(prefix)
    assert [item.key for item in result.items] == keys
    assert {item.mod_revision for item in result.items} == {revision}
    with pytest.raises(ConflictError):
        await storage.transact([Compare(keys[0], mod_revision=0)], [Delete(key) for key in keys])
    await storage.transact([Compare(key, mod_revision=revision) for key in keys[:100]], [Delete(key) for key in keys])
    assert (await storage.range(prefix)).items == []


async def test_transaction_beyond_etcds_limits_is_refused(storage, prefix):
    """More than `--max-txn-ops` compares, or a value beyond `--max-request-bytes`, are refused as a plain storage error."""
    with pytest.raises(StorageError, match="max-txn-ops"):
        await storage.transact([Compare(f"{prefix}{index}", mod_revision=0) for index in range(200)], [])
    with pytest.raises(StorageError, match="too large"):
        await storage.transact([], [Put(prefix + "big", b"x" * 2_000_000)])
    assert (await storage.range(prefix)).items == []


async def test_range_pages_through_eight_megabytes_at_one_revision(storage, prefix):
    """A list far above gRPC's default limit of 4 MiB comes whole, in order, counted, and from one revision."""
    value = b"x" * 10_000
    revision = 0
    for begin in range(0, 800, 100):
        revision = await storage.transact([], [Put(f"{prefix}{index:04}", value) for index in range(begin, begin + 100)])
    result = await storage.range(prefix, count=True)
    assert [item.key for item in result.items] == [f"{prefix}{index:04}" for index in range(800)]
    assert all(item.value == value for item in result.items)
    assert (result.more, result.total) == (False, 800)
    assert result.revision >= revision
    part = await storage.range(prefix, start=f"{prefix}0100", limit=300, count=True, keys_only=True, revision=revision)
    assert (len(part.items), part.items[0].key, part.items[0].value) == (300, f"{prefix}0100", b"")
    assert (part.more, part.total, part.revision) == (True, 700, revision)


async def test_range_edges(storage, prefix):
    """Starts before, inside and behind the prefix, and keys outside ASCII, are read in code-point order."""
    keys = sorted(prefix + name for name in ("a", "a/b", "z", "é", "\U0001f600"))
    revision = await storage.transact([], [Put(key, b"v") for key in keys])
    assert [item.key for item in (await storage.range(prefix)).items] == keys
    assert [item.key for item in (await storage.range(prefix, start="/")).items] == keys
    assert [item.key for item in (await storage.range(prefix, start=prefix + "a0")).items] == keys[2:]
    behind = await storage.range(prefix, start="0", revision=revision, count=True)
    assert behind == ([], revision, False, 0)
    with pytest.raises(FutureRevisionError):
        await storage.range(prefix, start="0", revision=revision + 1_000_000)
    assert keys[0] in [item.key for item in (await storage.range("")).items]


async def test_revisions_that_are_gone_or_to_come(own_etcd, open_storage):
    """Errors of reads and compactions outside the kept history contain its bounds."""
    storage = await open_storage(own_etcd.url)
    assert await storage.revision() == 1
    for index in range(9):
        await storage.transact([], [Put("/a", b"%d" % index)])
    with pytest.raises(FutureRevisionError) as future:
        await storage.range("/", revision=99)
    assert (future.value.revision, future.value.current) == (99, 10)
    with pytest.raises(FutureRevisionError):
        await storage.compact(99)
    await storage.compact(6)
    assert (await storage.range("/", revision=6)).items == [KeyValue("/a", b"4", 6, 2)]
    for revision in (1, 5):
        with pytest.raises(CompactedError) as compacted:
            await storage.range("/", revision=revision)
        assert (compacted.value.revision, compacted.value.compact_revision) == (revision, 6)
    for revision in (1, 6):
        with pytest.raises(CompactedError) as compacted:
            await storage.compact(revision)
        assert (compacted.value.revision, compacted.value.compact_revision) == (revision, 6)


async def test_compaction_at_the_first_revision(own_etcd, open_storage):
    """The compact revision is also found where no watch can be told it."""
    storage = await open_storage(own_etcd.url)
    await storage.compact(1)
    with pytest.raises(CompactedError) as compacted:
        await storage.compact(1)
    assert compacted.value.compact_revision == 1


async def test_full_store(start_etcd, open_storage):
    """A store at its quota refuses writes as full and goes on reading."""
    server = start_etcd(arguments=("--quota-backend-bytes", "3000000"))
    await server.wait()
    storage = await open_storage(server.url)

    async def fill():
        for index in range(1000):
            await storage.transact([], [Put(f"/{index}", b"x" * 200_000)])

    with pytest.raises(NoSpaceError):
        await fill()
    assert await storage.get("/0") is not None
    assert any("NOSPACE" in error for error in (await storage.status()).errors)


async def test_two_storages_on_one_etcd(etcd, open_storage, prefix):
    """What one server wrote another one reads at once, and its watch brings it."""
    one, two = await open_storage(etcd.url), await open_storage(etcd.url)
    start = await one.revision()
    async with aclosing(two.watch(prefix, start_revision=start + 1)) as watch:
        assert (await anext(watch)).events == ()
        for index in range(20):
            revision = await one.transact([], [Put(prefix + "a", b"%d" % index)])
            found = await two.get(prefix + "a")
            assert found is not None
            assert (found.value, found.mod_revision) == (b"%d" % index, revision)
            while not (batch := await anext(watch)).events:
                pass
            assert [event.mod_revision for event in batch.events] == [revision]


async def test_watch_events(storage, prefix):
    """Creations, updates and deletes arrive with previous values, those of a transaction in one batch."""
    a, b = prefix + "a", prefix + "b"
    first = await storage.transact([], [Put(a, b"1"), Put(b, b"1")])
    second = await storage.transact([], [Put(a, b"2"), Delete(b)])
    await storage.transact([], [Put(prefix[:-1] + "0other", b"x")])
    events: list[Event] = []
    async with aclosing(storage.watch(prefix, start_revision=first)) as watch:
        async for batch in watch:
            assert isinstance(batch, WatchBatch)
            events += batch.events
            if batch.revision >= second:
                break
    a1, b1 = KeyValue(a, b"1", first, first), KeyValue(b, b"1", first, first)
    assert sorted(events, key=lambda event: (event.mod_revision, event.key)) == [
        Event(a, b"1", first, first, None),
        Event(b, b"1", first, first, None),
        Event(a, b"2", second, first, a1),
        Event(b, None, second, first, b1),
    ]


async def test_quiet_watch_learns_the_revision(storage, prefix):
    """A watch whose prefix does not change still hears how far the store has come."""
    start = await storage.revision()
    async with aclosing(storage.watch(prefix, start_revision=start - 3 if start > 5 else start)) as watch:
        last = await storage.transact([], [Put("/elsewhere" + prefix, b"1")])
        async for batch in watch:
            assert not batch.events
            if batch.revision >= last:
                break


async def test_watch_of_the_future(storage, prefix):
    """A watch may begin at a revision that is still to come; what happens before is skipped."""
    now = await storage.revision()
    async with aclosing(storage.watch(prefix, start_revision=now + 3)) as watch:
        assert (await anext(watch)).revision < now + 3
        written = [await storage.transact([], [Put(prefix + "a", b"%d" % index)]) for index in range(5)]
        seen: list[int] = []
        async for batch in watch:
            seen += [event.mod_revision for event in batch.events]
            if batch.revision >= written[-1]:
                break
    assert seen == [revision for revision in written if revision >= now + 3]


async def test_closing_ends_watches_and_calls(etcd, prefix):
    """Who waits for a watch or an answer when the store closes gets an error, and is not cancelled."""
    storage = EtcdStorage(EtcdOptions((etcd.url,)))
    async with storage:
        watch = storage.watch(prefix, start_revision=await storage.revision() + 1)
        await anext(watch)
        waiting = asyncio.create_task(_drain(watch))
        await asyncio.sleep(0)
    with pytest.raises(UnavailableError):
        await waiting
    with pytest.raises(UnavailableError):
        await storage.get("/a")


async def test_cancelling_a_waiting_reader(storage, prefix):
    """Cancelling the task that waits for a watch cancels it and leaves the storage usable."""
    waiting = asyncio.create_task(_drain(storage.watch(prefix, start_revision=await storage.revision() + 1)))
    await storage.check()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await storage.check()


async def test_nobody_there(open_storage):
    """An unreachable store is unavailable, for readers, writers and readiness."""
    storage = await open_storage("http://127.0.0.1:1", connect_timeout=0.05)
    with pytest.raises(UnavailableError):
        await storage.check()
    with pytest.raises(UnavailableError) as unsent:
        await storage.transact([], [Put("/a", b"1")])
    assert not isinstance(unsent.value, UnknownOutcomeError)


async def _drain(watch: AsyncGenerator[WatchBatch, None]) -> None:
    async for _ in watch:
        pass
