"""The watched store over one that another server writes to: the answers from memory, and that nothing is stale."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from hypothesis import settings

from kcp_py.storage.contract import CompactedError, Put, Storage, UnavailableError
from kcp_py.storage.feed import LONGEST_BUFFER
from kcp_py.storage.rangecache import Span
from kcp_py.storage.watched import WatchedStorage
from kcp_py.testing.storage_calls import create, delete, events_until, put
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite
from tests.storage.watched.followedstorage import FollowedStorage, followed

pytestmark = pytest.mark.anyio


async def no_pause(_seconds: float) -> None:
    """Starts a watch that ended again at once."""
    await asyncio.sleep(0)


def watched(store: FollowedStorage, prefix: str = "/r/", *, patience: float = 30, max_bytes: int = 1 << 20) -> WatchedStorage:
    return WatchedStorage(store, prefix, max_bytes=max_bytes, patience=patience, sleep=no_pause)


class TestWatchedStorage(StorageSuite):
    """The suite, with watches of all keys from the shared watch."""

    @pytest.fixture
    async def storage(self) -> AsyncIterator[Storage]:
        async with watched(FollowedStorage(), "") as storage:
            yield storage


TestMachine = storage_machine(lambda: watched(FollowedStorage(), "")).TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


async def test_a_known_key_is_not_read_again() -> None:
    """The second GET of a key, present or absent, and GETs after events are answered from memory."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        await put(store, "/r/a", b"1")
        assert [item and item.value for item in [await storage.get("/r/a"), await storage.get("/r/none")]] == [b"1", None]
        store.reads.clear()
        assert [item and item.value for item in [await storage.get("/r/a"), await storage.get("/r/none")]] == [b"1", None]
        await put(store, "/r/a", b"2")
        await put(store, "/r/none", b"3")
        assert [item and item.value for item in [await storage.get("/r/a"), await storage.get("/r/none")]] == [b"2", b"3"]
        await delete(store, "/r/a")
        assert await storage.get("/r/a") is None
        assert store.reads == []


async def test_a_write_of_another_server_is_waited_for() -> None:
    """A GET after a write whose event is late waits for the event, and does not answer from memory before."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        await put(store, "/r/a", b"1")
        await storage.get("/r/a")
        store.flowing.clear()
        await put(store, "/r/a", b"2")
        reading = asyncio.ensure_future(storage.get("/r/a"))
        while not store.progress_requests:
            await asyncio.sleep(0)
        assert not reading.done()
        store.flowing.set()
        item = await reading
        assert item is not None
        assert item.value == b"2"


async def test_a_watch_that_is_stuck_is_passed_by() -> None:
    """Reads come from the store while the watch delivers nothing, and from memory again when it has caught up."""
    store = FollowedStorage()
    async with watched(store, patience=0.01) as storage:
        await followed(storage, "/r/")
        await put(store, "/r/a", b"0")
        await storage.get("/r/a")
        store.flowing.clear()
        for number in range(1, 4):
            revision = await put(store, "/r/a", b"%d" % number)
            item = await storage.get("/r/a")
            assert item is not None
            assert (item.value, item.mod_revision) == (b"%d" % number, revision)
            assert await storage.revision() == revision
        assert len(store.reads) >= 3
        store.flowing.set()
        async with aclosing(storage.watch("/r/", start_revision=1)) as batches:
            await events_until(batches, revision)
        store.reads.clear()
        item = await storage.get("/r/a")
        assert item is not None
        assert item.value == b"3"
        assert store.reads == []


async def test_a_key_that_changes_while_it_is_read_is_not_kept() -> None:
    """An answer that is older than an applied event of the key does not come back as its current state."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        await create(store, "/r/a", b"1")
        read = store.read
        late = asyncio.Event()

        async def slow(key: str):
            answer = await read(key)
            await late.wait()
            return answer

        await storage.revision()
        # An evicted key, whose answer arrives after the event of a later write was applied and evicted.
        storage._keys.clear()
        store.read = slow  # type: ignore[method-assign]
        reading = asyncio.ensure_future(storage.get("/r/a"))
        await asyncio.sleep(0)
        await put(store, "/r/a", b"2")
        await storage.revision()
        storage._keys.clear()
        late.set()
        item = await reading
        assert item is not None
        assert item.value == b"1"
        store.read = read  # type: ignore[method-assign]
        item = await storage.get("/r/a")
        assert item is not None
        assert item.value == b"2"


async def test_only_keys_of_the_prefix_are_kept() -> None:
    """Keys outside of the watched prefix, also those that begin alike, are read from the store each time."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        for key in ("/r", "/r0", "/ra/x", "/other/a"):
            for value in (b"1", b"2"):
                await put(store, key, value)
                item = await storage.get(key)
                assert item is not None
                assert item.value == value
            assert store.reads.count(key) == 2


async def test_the_end_of_the_watch_drops_everything_and_ends_shared_watches() -> None:
    """After history was compacted away below the watch, its readers are told, nothing old is answered, and a new watch begins."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        await put(store, "/r/a", b"1")
        await storage.get("/r/a")
        async with aclosing(storage.watch("/r/", start_revision=1)) as batches:
            await events_until(batches, 1)
            store.flowing.clear()
            await put(store, "/r/a", b"2")
            store.error = CompactedError(2, 9)
            store.flowing.set()
            with pytest.raises(CompactedError):
                await events_until(batches, 10**9)
        item = await storage.get("/r/a")
        assert item is not None
        assert item.value == b"2"
        await followed(storage, "/r/")
        await storage.get("/r/a")
        store.reads.clear()
        for number in range(3):
            await put(store, "/r/a", b"again %d" % number)
            item = await storage.get("/r/a")
            assert item is not None
            assert item.value == b"again %d" % number
        assert store.reads == []


async def test_a_restored_store_drops_everything() -> None:
    """A read index below a revision that was seen means another history: nothing of the former one is answered."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        for _ in range(5):
            await put(store, "/r/a", b"1")
        await storage.get("/r/a")
        async with aclosing(storage.watch("/r/", start_revision=6)) as batches:
            await anext(batches)
            assert await storage.revision() == 5
            store.lost_revisions = 3
            store.reads.clear()
            await storage.get("/r/a")
            assert store.reads == ["/r/a"]
            with pytest.raises(CompactedError):
                await events_until(batches, 10**9)


async def test_all_readers_of_the_prefix_share_one_watch() -> None:
    """The store sees one watch of the prefix, however many read it; watches of other prefixes are their own."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        start = await storage.revision() + 1
        async with aclosing(storage.watch("/r/", start_revision=start)) as one, aclosing(storage.watch("/r/", start_revision=start)) as two:
            for batches in (one, two):
                await anext(batches)
            for number in range(3):
                revision = await put(store, f"/r/{number}")
                for batches in (one, two):
                    assert [event.key for event in await events_until(batches, revision)] == [f"/r/{number}"]
        assert store.watches == ["/r/"]
        async with aclosing(storage.watch("/r/1", start_revision=start)) as other:
            assert [event.key for event in await events_until(other, revision)] == ["/r/1"]
        assert store.watches == ["/r/", "/r/1"]


async def test_a_slow_reader_of_the_shared_watch_reads_history() -> None:
    """A reader that leaves more events unread than the buffer takes still receives each of them once."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        async with aclosing(storage.watch("/r/", start_revision=1)) as batches:
            await anext(batches)
            for number in range(LONGEST_BUFFER + 10):
                revision = await put(store, f"/r/{number}")
            assert await storage.revision() == revision
            assert [event.mod_revision for event in await events_until(batches, revision)] == list(range(1, revision + 1))
            assert len(store.watches) > 1
            more = await put(store, "/r/more")
            assert [event.key for event in await events_until(batches, more)] == ["/r/more"]


async def test_a_span_is_valid_until_a_write_of_another_server() -> None:
    """A range that was read is found at the revision of the store, and is gone with the first write below it by any server."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        await put(store, "/r/things/c/a")
        cache = storage.range_cache
        with cache.reading("/r/things/c/") as reading:
            found = await storage.range("/r/things/c/")
            span = Span("/r/things/c/", "/r/things/c0", found.revision, [item.key for item in found.items], [b"x"])
            cache.keep(reading, "maker", span, latest=True)
        await put(store, "/r/things/other/a")
        revision = await storage.revision()
        assert cache.find("/r/things/c/", "maker", "/r/things/c/", revision) is span
        await put(store, "/r/things/c/b")
        revision = await storage.revision()
        assert cache.find("/r/things/c/", "maker", "/r/things/c/", revision) is None


async def test_no_span_is_kept_ahead_of_a_stuck_watch() -> None:
    """A range that is newer than the watch is not kept, because events that concern it may still arrive."""
    store = FollowedStorage()
    async with watched(store, patience=0.01) as storage:
        await followed(storage, "/r/")
        store.flowing.clear()
        await put(store, "/r/things/c/a")
        cache = storage.range_cache
        with cache.reading("/r/things/c/") as reading:
            found = await storage.range("/r/things/c/")
            cache.keep(reading, "maker", Span("/r/things/c/", "/r/things/c0", found.revision, ["/r/things/c/a"], [b"x"]), latest=True)
        assert cache.size == 0
        store.flowing.set()


async def test_reads_share_calls_of_the_store() -> None:
    """A hundred GETs at once take one call or two."""
    store = FollowedStorage()
    async with watched(store) as storage:
        await followed(storage, "/r/")
        await put(store, "/r/a", b"1")
        await storage.get("/r/a")
        store.indexes = 0
        store.reads.clear()
        items = await asyncio.gather(*(storage.get("/r/a") for _ in range(100)))
        assert {item.value for item in items if item is not None} == {b"1"}
        assert (store.indexes <= 2, store.reads) == (True, [])


async def test_closing_ends_reads_and_watches() -> None:
    """A read that waits for the store and a shared watch end with `UnavailableError`."""
    store = FollowedStorage()
    storage = watched(store)
    await storage.__aenter__()
    await followed(storage, "/r/")
    await storage.transact([], [Put("/r/a", b"1")])
    await storage.get("/r/a")
    watch = storage.watch("/r/", start_revision=2)
    await anext(watch)
    following = asyncio.ensure_future(events_until(watch, 10**9))
    store.answering.clear()
    reading = asyncio.ensure_future(storage.get("/r/a"))
    await asyncio.sleep(0)
    await storage.__aexit__(None, None, None)
    for waiting in (following, reading):
        with pytest.raises(UnavailableError):
            await waiting
