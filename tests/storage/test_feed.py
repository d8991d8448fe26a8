"""The live feed: what it does for readers who are slow, late or idle."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from kcp_py.storage.contract import CompactedError, Event, UnavailableError
from kcp_py.storage.feed import Changes, Feed
from kcp_py.testing.storage_calls import events_until

pytestmark = pytest.mark.anyio


class _History:
    """A log of one event per revision, and how often it was read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.compacted = 0
        self.reads = 0

    def add(self, feed: Feed, key: str, value: bytes = b"x") -> int:
        revision = len(self.events) + 1
        event = Event(key, value, revision, revision, None)
        self.events.append(event)
        feed.publish([event], revision)
        return revision

    async def read(self, prefix: str, after: int, until: int) -> Changes:
        self.reads += 1
        await asyncio.sleep(0)
        if after < self.compacted:
            raise CompactedError(after + 1, self.compacted)
        until = min(until, after + 3)
        return Changes([event for event in self.events[after:until] if event.key.startswith(prefix)], until)


async def test_full_buffer_falls_back_to_history() -> None:
    """A reader whose buffer ran over reads history and then is live again, without loss or repetition."""
    history = _History()
    feed = Feed(history.read, revision=0, longest_buffer=5)
    async with aclosing(feed.watch("/", start_revision=1)) as batches:
        await events_until(batches, 0)
        for number in range(20):
            last = history.add(feed, f"/{number}")
        assert history.reads == 0
        assert [event.mod_revision for event in await events_until(batches, last)] == list(range(1, 21))
        reads = history.reads
        assert reads > 0
        last = history.add(feed, "/last")
        assert [event.key for event in await events_until(batches, last)] == ["/last"]
        assert history.reads == reads


async def test_large_values_fill_a_buffer() -> None:
    """A buffer is bounded in bytes as well."""
    history = _History()
    feed = Feed(history.read, revision=0, largest_buffer=1000)
    async with aclosing(feed.watch("/", start_revision=1)) as batches:
        await events_until(batches, 0)
        history.add(feed, "/a", b"x" * 600)
        last = history.add(feed, "/b", b"x" * 600)
        assert len(await events_until(batches, last)) == 2
        assert history.reads > 0


async def test_reader_overtaken_by_compaction() -> None:
    """A reader that fell behind the kept history receives an error."""
    history = _History()
    feed = Feed(history.read, revision=0, longest_buffer=5)
    async with aclosing(feed.watch("/", start_revision=1)) as batches:
        await events_until(batches, 0)
        for number in range(20):
            last = history.add(feed, f"/{number}")
        history.compacted = 15
        with pytest.raises(CompactedError) as caught:
            await events_until(batches, last)
        assert (caught.value.revision, caught.value.compact_revision) == (1, 15)


async def test_idle_readers_are_woken_once_for_many_writes() -> None:
    """Progress is coalesced: many writes elsewhere cost an idle reader one batch."""
    history = _History()
    feed = Feed(history.read, revision=0)
    async with aclosing(feed.watch("/quiet/", start_revision=1)) as batches:
        await anext(batches)
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        for number in range(100):
            last = history.add(feed, f"/loud/{number}")
        batch = await waiting
        assert (list(batch.events), batch.revision) == ([], last)


async def test_joining_during_writes() -> None:
    """Events of writes during a read of history arrive after it, once."""
    history = _History()
    feed = Feed(history.read, revision=0)
    for number in range(10):
        history.add(feed, f"/{number}")
    seen: list[int] = []
    async with aclosing(feed.watch("/", start_revision=1)) as batches:
        async for batch in batches:
            seen += [event.mod_revision for event in batch.events]
            if len(history.events) < 40:
                history.add(feed, f"/{len(history.events)}")
            elif batch.revision == 40:
                break
    assert seen == list(range(1, 41))


async def test_left_watches_leave_nothing() -> None:
    """A watch that ended is forgotten."""
    history = _History()
    feed = Feed(history.read, revision=0)
    async with aclosing(feed.watch("/a", start_revision=1)) as one, aclosing(feed.watch("/a", start_revision=1)) as other:
        await anext(one)
        await anext(other)
        assert feed._watchers
    assert feed._watchers == {}
    assert feed._lengths == {}


async def test_close() -> None:
    """A feed that closes ends the watches that wait."""
    feed = Feed(_History().read, revision=0)
    async with aclosing(feed.watch("/", start_revision=1)) as batches:
        await anext(batches)
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        feed.close()
        with pytest.raises(UnavailableError):
            await waiting
