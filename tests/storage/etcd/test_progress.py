"""Watches on members that answer progress requests in order, and answers that real members rarely give."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import grpc
import pytest

from kcp_py.storage.contract import CompactedError, Event, KeyValue, NoSpaceError, Put, StorageError, UnavailableError, WatchBatch
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage

pytestmark = pytest.mark.anyio


async def impatient(seconds: float) -> None:
    """Skips the short waits between attempts; the long ones of an idle store never end."""
    await (asyncio.sleep(0) if seconds < 4 else asyncio.Event().wait())


@pytest.fixture
async def scripted(member):
    """A storage on the scripted member."""
    async with EtcdStorage(EtcdOptions((member.url,)), sleep=impatient) as storage:
        yield storage


def put(key: str, revision: int, created: int = 0, **more: object) -> dict[str, object]:
    value = b"%d" % revision
    return {"kv": {"key": key.encode(), "value": value, "mod_revision": revision, "create_revision": created or revision}, **more}


async def test_progress_is_asked_for_and_delivered(member, scripted):
    """A watch in the past covers its prefix only, asks how far it is until it is told, and then reports it."""
    async with aclosing(scripted.watch("/a/", start_revision=5)) as watch:
        first = asyncio.ensure_future(anext(watch))
        stream = await member.watches.get()
        assert (stream.create.key, stream.create.range_end, stream.create.start_revision) == (b"/a/", b"/a0", 5)
        assert stream.create.prev_kv
        assert stream.create.fragment
        await stream.send(10, created=True)
        while stream.progress_requests < 3:
            stream.progress_requested.clear()
            await stream.progress_requested.wait()
        await stream.send(10, watch_id=-1)
        assert await first == WatchBatch((), 10)


async def test_progress_is_asked_for_when_the_store_is_seen_to_move(member, scripted):
    """A level watch is asked about as soon as another answer shows a newer revision, and not before."""
    async with aclosing(scripted.watch("/a/", start_revision=11)) as watch:
        first = asyncio.ensure_future(anext(watch))
        stream = await member.watches.get()
        await stream.send(10, created=True)
        assert await first == WatchBatch((), 10)
        second = asyncio.ensure_future(anext(watch))
        assert await scripted.revision() == 10
        assert stream.progress_requests == 0
        member.revision = 12
        assert await scripted.revision() == 12
        await stream.progress_requested.wait()
        await stream.send(12, watch_id=-1)
        assert await second == WatchBatch((), 12)


async def test_fragments_are_joined_by_revision(member, scripted):
    """A revision whose events are spread over fragments comes in one batch; complete ones need not wait for it."""
    async with aclosing(scripted.watch("/", start_revision=5)) as watch:
        first = asyncio.ensure_future(anext(watch))
        stream = await member.watches.get()
        await stream.send(10, created=True)
        await stream.send(10, put("/a", 5), put("/b", 6), fragment=True)
        await stream.send(10, put("/c", 6), fragment=True)
        await stream.send(10, put("/d", 6), put("/e", 7))
        batches = [await first, await anext(watch)]
    assert [[(event.key, event.mod_revision) for event in batch.events] for batch in batches] == [
        [("/a", 5)],
        [("/b", 6), ("/c", 6), ("/d", 6), ("/e", 7)],
    ]
    assert [batch.revision for batch in batches] == [5, 7]


async def test_resumes_behind_what_was_delivered(member, scripted):
    """After any end of a stream the next begins behind the last delivered revision: not behind headers, half revisions or repeated
    events."""
    async with aclosing(scripted.watch("/", start_revision=5)) as watch:
        batches: list[WatchBatch] = []
        reading = asyncio.ensure_future(_collect(watch, batches, until=9))
        stream = await member.watches.get()
        await stream.send(10, created=True)
        await stream.send(10, put("/a", 5), put("/b", 6), fragment=True)
        await stream.send(10, canceled=True, cancel_reason="etcdserver: no leader")
        stream = await member.watches.get()
        assert stream.create.start_revision == 6
        await stream.send(10, created=True)
        await stream.send(10, put("/a", 5), put("/b", 6), put("/c", 7))
        await stream.send(8, watch_id=-1)
        await stream.send(7, watch_id=-1)
        await stream.send(10, canceled=True)
        stream = await member.watches.get()
        assert stream.create.start_revision == 9
        await stream.send(10, created=True)
        await stream.send(10, put("/d", 9))
        await reading
    assert [(event.key, event.mod_revision) for batch in batches for event in batch.events] == [("/a", 5), ("/b", 6), ("/c", 7), ("/d", 9)]
    revisions = [batch.revision for batch in batches]
    assert revisions == sorted(revisions)


async def test_lost_previous_value_counts_as_compacted(member, scripted):
    """An update without its previous value is not passed off as a creation: the reader has fallen behind a compaction."""
    async with aclosing(scripted.watch("/", start_revision=11)) as watch:
        first = asyncio.ensure_future(anext(watch))
        stream = await member.watches.get()
        await stream.send(10, created=True)
        await first
        second = asyncio.ensure_future(anext(watch))
        member.failures["KV/Range"] = [(grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")]
        await stream.send(14, put("/a", 14, 3))
        lookup = await member.watches.get()
        await lookup.send(20, created=True)
        await lookup.send(20, canceled=True, compact_revision=15)
        with pytest.raises(CompactedError) as compacted:
            await second
    assert (compacted.value.revision, compacted.value.compact_revision) == (11, 15)


async def test_lost_previous_value_for_another_reason_is_fetched_again(member, scripted):
    """Where nothing was compacted the event is asked for again."""
    async with aclosing(scripted.watch("/", start_revision=11)) as watch:
        first = asyncio.ensure_future(anext(watch))
        stream = await member.watches.get()
        await stream.send(10, created=True)
        await first
        second = asyncio.ensure_future(anext(watch))
        await stream.send(14, {"type": 1, "kv": {"key": b"/a", "mod_revision": 14}})
        stream = await member.watches.get()
        assert stream.create.start_revision == 11
        await stream.send(14, created=True)
        previous = {"key": b"/a", "value": b"1", "mod_revision": 4, "create_revision": 3}
        await stream.send(14, {"type": 1, "kv": {"key": b"/a", "mod_revision": 14}, "prev_kv": previous})
        batch = await second
    assert batch.events == [Event("/a", None, 14, 3, KeyValue("/a", b"1", 4, 3))]


async def test_streams_end_with_their_watches(member, scripted):
    """Closing the generator ends the stream at the member."""
    watch = scripted.watch("/", start_revision=11)
    first = asyncio.ensure_future(anext(watch))
    stream = await member.watches.get()
    await stream.send(10, created=True)
    await first
    await watch.aclose()
    await stream.ended.wait()


async def test_writes_are_sent_once_and_reads_again(member, scripted):
    """A write that fails for an unknown reason is not repeated; a read is."""
    for code, text in (
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out"),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed"),
        (grpc.StatusCode.UNKNOWN, "something"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded"),
    ):
        member.requests.clear()
        member.failures = {"KV/Txn": [(code, text)], "KV/Range": [(code, text)]}
        with pytest.raises(UnavailableError, match=text):
            await scripted.transact([], [Put("/a", b"1")])
        assert await scripted.get("/a") is None
        assert member.requests == ["KV/Txn", "KV/Range", "KV/Range"]


@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", NoSpaceError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", UnavailableError),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", StorageError),
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", UnavailableError),
    ],
)
async def test_errors_in_the_contracts_words(member, scripted, code, text, error):
    """What etcd says becomes one of the contract's errors, with etcd's words."""
    member.failures["KV/Txn"] = [(code, text)]
    with pytest.raises(StorageError, match=text) as raised:
        await scripted.transact([], [Put("/a", b"1")])
    assert type(raised.value) is error


async def _collect(watch, batches, until):
    async for batch in watch:
        batches.append(batch)
        if batch.revision >= until:
            return
