"""Watches under restarts, cuts, stalls and compaction."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import TypeVar

import pytest

from kcp_py.storage.contract import CompactedError, Event, KeyValue, Put, StorageError, UnavailableError, UnknownOutcomeError, WatchBatch
from kcp_py.storage.etcd import EtcdStorage

pytestmark = pytest.mark.anyio

T = TypeVar("T")


async def test_cuts_while_catching_up_lose_and_repeat_nothing(etcd, storage, open_storage, start_proxy, prefix):
    """20,000 events read through a connection that is cut again and again come once each, in order, with revisions whole."""
    first = await storage.revision() + 1
    value = b"x" * 100
    for group in range(40):
        await asyncio.gather(
            *(
                storage.transact([], [Put(f"{prefix}{key}", b"%d %s" % (group, value)) for key in range(begin, begin + 10)])
                for begin in range(0, 500, 10)
            )
        )
    last = await storage.revision()
    proxy = await start_proxy(etcd)
    proxy.cuts_after = [2_000, 300_000, 50_000, 700_000, 100, 900_000]
    behind = await open_storage(proxy.url)
    events: list[Event] = []
    ends: list[int] = []
    async with aclosing(behind.watch(prefix, start_revision=first)) as watch:
        async for batch in watch:
            events += batch.events
            ends += [batch.events[-1].mod_revision] if batch.events else []
            if batch.revision >= last:
                break
    assert proxy.connections > 6
    assert len(events) == 20_000
    revisions = [event.mod_revision for event in events]
    assert revisions == sorted(revisions)
    assert ends == sorted(set(ends))
    assert len({(event.key, event.mod_revision) for event in events}) == 20_000
    newest: dict[str, Event] = {}
    for event in events:
        before = newest.get(event.key)
        assert (event.previous and event.previous.mod_revision) == (before and before.mod_revision)
        newest[event.key] = event


class Traffic:
    """Four writers and a watch on an empty store, whose history is checked at the end."""

    def __init__(self, storage: EtcdStorage) -> None:
        self._storage = storage
        self._attempted = 0
        self._acknowledged: dict[bytes, int] = {}
        self._seen: list[Event] = []
        self._stop = asyncio.Event()
        self._moved = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read()), *(asyncio.create_task(self._write(number)) for number in range(4))]
        self.failed = asyncio.Event()
        """Set when a write failed."""

    async def _write(self, writer: int) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            self._attempted += 1
            value = b"%d/%d" % (writer, turn)
            try:
                self._acknowledged[value] = await self._storage.transact([], [Put(f"/{writer}", value)])
                self._moved.set()
            except UnavailableError:
                self.failed.set()

    async def _read(self) -> None:
        async with aclosing(self._storage.watch("/", start_revision=2)) as watch:
            async for batch in watch:
                self._seen.extend(batch.events)
                self._moved.set()
                if any(event.key == "/end" for event in batch.events):
                    return

    async def flow(self) -> None:
        """Until some more has been written and seen."""
        written, seen = len(self._acknowledged) + 100, len(self._seen) + 100
        while len(self._acknowledged) < written or len(self._seen) < seen:
            self._moved.clear()
            await self._moved.wait()

    async def finish(self, *, durable: bool = True) -> None:
        """Each acknowledged write was seen exactly once, each other at most once, no revision was left out, and all in order.

        Args:
            durable: whether the store keeps each acknowledged write.
        """
        self._stop.set()
        await asyncio.gather(*self._tasks[1:])
        ended = False
        while not ended:
            self._attempted += 1
            with suppress(UnavailableError):
                await self._storage.transact([], [Put("/end", b"end %d" % self._attempted)])
                ended = True
        await self._tasks[0]
        found = {event.value: event.mod_revision for event in self._seen}
        assert len(found) == len(self._seen) <= self._attempted
        assert [event.mod_revision for event in self._seen] == list(range(2, len(self._seen) + 2))
        assert not durable or self._acknowledged.items() <= found.items()


async def test_restarts_under_writers_and_a_watch(start_etcd, etcd_programs, open_storage):
    """While etcd is killed and restarted under writers, each acknowledged write is seen once and each other at most once."""
    etcd = start_etcd(programs=etcd_programs)
    await etcd.wait()
    traffic = Traffic(await open_storage(etcd.url))
    for _ in range(2):
        await traffic.flow()
        traffic.failed.clear()
        etcd.stop()
        await traffic.failed.wait()
        etcd.start()
    await traffic.flow()
    # Before 3.5.5 a single member acknowledges writes before they are in its log (etcd-io/etcd#14370).
    await traffic.finish(durable=etcd.version() >= (3, 5, 5))


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call that is repeated while the store is not available."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except UnavailableError:
                await asyncio.sleep(0.05)


async def written_and_read(writer: EtcdStorage, reader: EtcdStorage, value: bytes) -> tuple[int, KeyValue]:
    """The revision of a write, and the object that another member has behind it."""
    revision = await writer.transact([], [Put("/fresh", value)])
    found = await reader.get("/fresh")
    assert found is not None
    return revision, found


async def test_leader_is_lost_under_writers_and_a_watch(cluster, open_storage):
    """When the leader of three members dies the store goes on, nothing is lost, and reads on any member are fresh."""
    urls = [member.url for member in cluster]
    storage = await open_storage(*urls, request_timeout=2, connect_timeout=10)
    singles = {url: await open_storage(url, request_timeout=2) for url in urls}
    traffic = Traffic(storage)
    await traffic.flow()
    members = {(await insist(singles[member.url].status)).member: member for member in cluster}
    while (leader := (await insist(storage.status)).leader) not in members:
        pass  # an election
    first = members[leader]
    first.stop()
    await traffic.flow()
    await traffic.finish()
    living = [member for member in cluster if member is not first]
    for index in range(20):
        first_member, second_member = (singles[living[(index + other) % 2].url] for other in (0, 1))
        # Two of three members choose another leader when a machine stops them for half a second, and serve no calls meanwhile.
        revision, found = await insist(partial(written_and_read, first_member, second_member, b"%d" % index))
        assert (found.value, found.mod_revision) == (b"%d" % index, revision)
    living[0].stop()
    with pytest.raises(UnavailableError):
        await storage.check()


async def test_stalled_connection_is_given_up(start_etcd, open_storage, start_proxy):
    """A connection that passes nothing on is noticed: calls end at their time limit, and a watch goes on over another member's address."""
    server = start_etcd(arguments=("--grpc-keepalive-min-time", "100ms"))
    await server.wait()
    proxy, spare = await start_proxy(server), await start_proxy(server)
    # The store must not have chosen the other address before the first one stalls.
    spare.refuse()
    storage = await open_storage(proxy.url, spare.url, request_timeout=2, keepalive_time=0.2, keepalive_timeout=2)
    async with aclosing(storage.watch("/", start_revision=2)) as watch:
        first = await storage.transact([], [Put("/a", b"1")])
        while not (batch := await anext(watch)).events:
            pass
        assert batch.revision == first
        spare.resume()
        proxy.stall()
        with pytest.raises(UnknownOutcomeError):
            await storage.transact([], [Put("/a", b"lost")])
        second = await storage.transact([], [Put("/a", b"2")])
        while not (batch := await anext(watch)).events:
            pass
        assert [(event.value, event.mod_revision) for event in batch.events] == [(b"2", second)]
    assert second == first + 1
    storage = await open_storage(proxy.url, server.url, request_timeout=1, keepalive_time=60)
    found = await storage.get("/a")
    assert (found.value, found.mod_revision) == (b"2", second)


async def test_compaction_hits_only_those_behind(own_etcd, open_storage):
    """A watch that is level goes on through a compaction; one that still reads the past, or begins there, is told."""
    storage = await open_storage(own_etcd.url)
    for index in range(3000):
        await storage.transact([], [Put("/a", b"%d" % index + b"x" * 1000)])
    head = await storage.revision()
    async with (
        aclosing(storage.watch("/", start_revision=head + 1)) as level,
        aclosing(storage.watch("/", start_revision=2)) as behind,
        aclosing(storage.watch("/", start_revision=2)) as not_begun,
        aclosing(storage.watch("/", start_revision=head)) as at_the_edge,
        aclosing(storage.watch("/", start_revision=head + 1)) as after,
    ):
        assert (await anext(level)).revision == head
        batch = await anext(behind)
        assert [event.mod_revision for event in batch.events] == list(range(2, batch.revision + 1))
        assert batch.revision < head
        await storage.compact(head)
        with pytest.raises(CompactedError) as compacted:
            await anext(behind)
        assert (compacted.value.revision, compacted.value.compact_revision) == (batch.revision + 1, head)
        with pytest.raises(CompactedError) as compacted:
            await anext(not_begun)
        assert (compacted.value.revision, compacted.value.compact_revision) == (2, head)
        with pytest.raises(CompactedError):
            await anext(at_the_edge)
        assert (await anext(after)).revision == head
        written = await storage.transact([], [Put("/b", b"1")])
        for watch in (level, after):
            batch = await anext(watch)
            assert [event.mod_revision for event in batch.events] == [written]


async def test_compaction_while_cut_off(own_etcd, open_storage, start_proxy):
    """A watch that missed changes while it was cut off, and finds them compacted, says so instead of skipping them."""
    proxy = await start_proxy(own_etcd)
    direct, storage = await open_storage(own_etcd.url), await open_storage(proxy.url, connect_timeout=0.1)
    async with aclosing(storage.watch("/", start_revision=2)) as watch:
        first = await direct.transact([], [Put("/a", b"1")])
        while not (await anext(watch)).events:
            pass
        own_etcd.stop()
        proxy.cut()
        own_etcd.start()
        await own_etcd.wait()
        for _ in range(3):
            newest = await direct.transact([], [Put("/a", b"2")])
        await direct.compact(newest)
        with pytest.raises(CompactedError) as compacted:
            await _drain(watch)
    assert compacted.value.revision == first + 1
    assert compacted.value.compact_revision == newest


async def test_large_revisions_are_not_split(storage, prefix):
    """Catching up on more than one message can hold keeps each revision in one batch."""
    value = b"x" * 130_000
    revisions = [await storage.transact([], [Put(f"{prefix}{key}", value) for key in range(9)]) for _ in range(7)]
    batches: list[list[int]] = []
    async with aclosing(storage.watch(prefix, start_revision=revisions[0])) as watch:
        async for batch in watch:
            batches.append([event.mod_revision for event in batch.events])
            if batch.revision >= revisions[-1]:
                break
    assert [revision for batch in batches for revision in batch] == [revision for revision in revisions for _ in range(9)]
    for batch in batches:
        assert all(batch.count(revision) == 9 for revision in set(batch))


async def test_lost_reply_is_not_written_twice(etcd, storage, open_storage, start_proxy, prefix):
    """A write whose answer is lost is unavailable, stands in the store once, and is not sent again."""
    proxy = await start_proxy(etcd)
    through = await open_storage(proxy.url)
    await through.check()
    marker = b"marker" * 4
    proxy.lose_reply(marker)
    write = asyncio.create_task(through.transact([], [Put(prefix + "a", marker)]))
    await proxy.reply_lost.wait()
    while (found := await storage.get(prefix + "a")) is None:
        pass
    proxy.cut()
    with pytest.raises(UnknownOutcomeError):
        await write
    assert await through.get(prefix + "a") == found
    assert found.mod_revision == found.create_revision


async def test_reads_outlive_cuts(etcd, open_storage, start_proxy, prefix):
    """A read whose connection is cut is asked again."""
    proxy = await start_proxy(etcd)
    storage = await open_storage(proxy.url)
    for _ in range(5):
        await storage.check()
        proxy.cut()
        try:
            await storage.get(prefix + "a")
        except StorageError as error:
            pytest.fail(f"a read was not repeated: {error}")


async def _drain(watch: AsyncGenerator[WatchBatch, None]) -> None:
    async for _ in watch:
        pass


async def _events(watch: AsyncGenerator[WatchBatch, None]) -> list[Event]:
    """All until its end."""
    return [event async for batch in watch for event in batch.events]


async def test_a_watch_ends_when_the_store_goes_back(own_etcd, open_storage, prefix):
    """A store that comes back empty makes revisions anew: the watch ends as compacted, instead of waiting for them to pass."""
    storage = await open_storage(own_etcd.url)
    for number in range(20):
        last = await storage.transact([], [Put(f"{prefix}{number}", b"before")])
    async with aclosing(storage.watch(prefix, start_revision=last + 1)) as watch:
        assert (await anext(watch)).events == ()
        own_etcd.stop()
        shutil.rmtree(own_etcd.directory / "data")
        own_etcd.start()
        await own_etcd.wait()
        assert await storage.transact([], [Put(f"{prefix}new", b"after")]) < last
        with pytest.raises(CompactedError):
            await _events(watch)
    async with aclosing(storage.watch(prefix, start_revision=2)) as watch:
        assert [event.value for event in (await anext(watch)).events] == [b"after"]
