"""The fan-out delivers every event once, in order, to matching watchers only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from kcp_py.storage.contract import CompactedError, Delete, Event, Put
from kcp_py.storage.keys import prefix_in_cluster
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import Fanout, ObjectEvent, Route, WatchEndedError, Watcher, WatchOverflowError

pytestmark = pytest.mark.anyio

PREFIX = "/registry/core/configmaps/"


@asynccontextmanager
async def running_fanout(storage: MemoryStorage, **bounds: int) -> AsyncIterator[Fanout]:
    fanout = Fanout(storage, "/registry", **bounds)
    async with running(fanout):
        yield fanout


@asynccontextmanager
async def running(fanout: Fanout) -> AsyncIterator[None]:
    started = asyncio.Event()
    task = asyncio.create_task(fanout.run(started=started))
    await started.wait()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def taken(watcher: Watcher, count: int) -> list[ObjectEvent]:
    events: list[ObjectEvent] = []
    while len(events) < count:
        await watcher.wait()
        events.extend(await watcher.take())
    return events


def name_of(event: ObjectEvent) -> str:
    return f"{event.route.cluster}/{event.route.namespace}/{event.route.name}"


async def put(storage: MemoryStorage, cluster: str, name: str, value: bytes = b"x") -> int:
    return await storage.transact([], [Put(f"{PREFIX}{cluster}/default/{name}", value)])


async def test_events_reach_the_watchers_of_their_cluster_and_the_wildcard_only() -> None:
    """A watcher of one cluster never sees an event of another; the wildcard sees both."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        a = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        everything = fanout.attach(PREFIX, after=fanout.revision)
        await put(storage, "b", "one")
        await put(storage, "a", "two")
        assert [name_of(event) for event in await taken(everything, 2)] == ["b/default/one", "a/default/two"]
        assert [name_of(event) for event in await taken(a, 1)] == ["a/default/two"]


async def test_a_watcher_resumes_from_the_ring_without_gap_or_repetition() -> None:
    """What happened between the revision asked for and the attachment comes first, then what happens after."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        first = await put(storage, "a", "one")
        await put(storage, "a", "two")
        await fanout.reached(await put(storage, "b", "elsewhere"))
        watcher = fanout.attach(PREFIX, cluster="a", after=first)
        await put(storage, "a", "three")
        assert [event.route.name for event in await taken(watcher, 2)] == ["two", "three"]
        await put(storage, "a", "four")
        assert [event.route.name for event in await taken(watcher, 1)] == ["four"]


async def test_a_watcher_resumes_from_storage_when_the_ring_is_too_short() -> None:
    """Events that the ring has dropped are read from the store's history."""
    async with MemoryStorage() as storage, running_fanout(storage, max_events=2) as fanout:
        first = await put(storage, "a", "0")
        for number in range(1, 8):
            await put(storage, "a", str(number))
        await fanout.reached(await storage.revision())
        watcher = fanout.attach(PREFIX, cluster="a", after=first)
        await put(storage, "a", "8")
        assert [event.route.name for event in await taken(watcher, 8)] == [str(number) for number in range(1, 9)]


async def test_a_compacted_start_is_an_error() -> None:
    """A watcher whose events are gone is told so."""
    async with MemoryStorage() as storage, running_fanout(storage, max_events=1) as fanout:
        first = await put(storage, "a", "0")
        for number in range(1, 5):
            await put(storage, "a", str(number))
        await fanout.reached(await storage.revision())
        await storage.compact(await storage.revision())
        watcher = fanout.attach(PREFIX, cluster="a", after=first)
        with pytest.raises(CompactedError):
            await watcher.take()
        await fanout.detach(watcher)


async def test_a_slow_watcher_loses_its_own_watch_and_nobody_elses() -> None:
    """A full buffer ends the watcher that did not read, while another still gets everything."""
    async with MemoryStorage() as storage, running_fanout(storage, watcher_buffer=3) as fanout:
        slow = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        quick = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        for number in range(5):
            await put(storage, "a", str(number))
            assert [event.route.name for event in await taken(quick, 1)] == [str(number)]
        with pytest.raises(WatchOverflowError):
            await slow.take()


async def test_nothing_reaches_a_watcher_after_its_end() -> None:
    """A cluster made again under the same name is a stranger to the watches of the old one."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        watcher = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        wildcard = fanout.attach(PREFIX, after=fanout.revision)
        await fanout.reached(await put(storage, "a", "old"))
        fanout.end_watches(cluster="a")
        await fanout.reached(await put(storage, "a", "new"))
        assert [event.route.name for event in await watcher.take()] == ["old"]
        with pytest.raises(WatchEndedError):
            await watcher.take()
        assert [event.route.name for event in await taken(wildcard, 2)] == ["old", "new"]


async def test_a_reserved_watcher_ends_with_others_before_it_begins() -> None:
    """A reserved watcher receives no event before it begins, every event after its start, and an end in between."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        start = fanout.revision
        watcher = fanout.reserve(PREFIX, cluster="a")
        assert fanout.is_watched(PREFIX, "a")
        await fanout.reached(await put(storage, "a", "one"))
        assert await watcher.take() == ()
        fanout.begin(watcher, start)
        await fanout.reached(await put(storage, "a", "two"))
        assert [event.route.name for event in await taken(watcher, 2)] == ["one", "two"]
        late = fanout.reserve(PREFIX, cluster="a")
        late.raise_if_ended()
        fanout.end_watches(cluster="a")
        with pytest.raises(WatchEndedError):
            late.raise_if_ended()


async def test_whether_a_resource_is_watched_in_a_cluster() -> None:
    """Watches of other clusters, of all of them, and those that left do not count."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        watcher = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        fanout.attach(PREFIX, after=fanout.revision)
        assert [fanout.is_watched(PREFIX, cluster) for cluster in ("a", "b")] == [True, False]
        await fanout.detach(watcher)
        assert not fanout.is_watched(PREFIX, "a")


async def test_namespace_and_name_narrow_a_watch() -> None:
    """Live and resumed events are filtered alike."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        before = fanout.revision
        await storage.transact([], [Put(f"{PREFIX}a/blue/x", b"1")])
        await fanout.reached(await put(storage, "a", "x"))
        watcher = fanout.attach(PREFIX, cluster="a", namespace="blue", name="x", after=before)
        await storage.transact([], [Put(f"{PREFIX}a/blue/y", b"1")])
        await storage.transact([], [Delete(f"{PREFIX}a/blue/x")])
        events = await taken(watcher, 2)
        assert [(event.route.namespace, event.route.name, event.value) for event in events] == [("blue", "x", b"1"), ("blue", "x", None)]


class Made:
    """Puts the event of an object `made` behind each of another resource."""

    def __init__(self, source: str, target: str, is_wanted: Callable[[], bool] = lambda: True) -> None:
        self._source = source
        self._target = target
        self._is_wanted = is_wanted

    def concerns(self, event: ObjectEvent) -> bool:
        return event.route.prefix == self._source and self._is_wanted()

    def sources_of(self, cluster: str) -> Sequence[str] | None:
        return [prefix_in_cluster(self._source, cluster)] if cluster else None

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        assert {id(event) for event in stored} <= {id(event) for event in events}, "nothing else has changed them"
        found = list(events)
        for event in filter(self.concerns, events):
            route = Route(self._target, event.route.cluster, "", "made")
            found.append(ObjectEvent(route, Event(route.key, event.value, event.mod_revision, event.create_revision, None)))
        return found


async def test_derived_events_come_live_and_resumed() -> None:
    """Events that follow from another resource's are the same for a live watcher and for one that resumes from history."""
    source, target = "/registry/core/sources/", "/registry/core/targets/"

    async with MemoryStorage() as storage, running_fanout(storage, max_events=1) as fanout:
        fanout.derive([source], target, Made(source, target))
        before = await put(storage, "a", "unrelated")
        live = fanout.attach(target, after=before)
        revision = await storage.transact([], [Put(f"{source}a/one", b"1")])
        await fanout.reached(await put(storage, "a", "unrelated"))
        assert [(event.route.name, event.mod_revision) for event in await taken(live, 1)] == [("made", revision)]
        resumed = fanout.attach(target, after=before)
        assert [(event.route.name, event.mod_revision) for event in await taken(resumed, 1)] == [("made", revision)]


async def test_derived_events_of_one_cluster_are_in_order() -> None:
    """A watch of a cluster that resumes from history gets the events of the resource and those from other resources by revision."""
    source, target = "/registry/core/sources/", "/registry/core/targets/"

    async with MemoryStorage() as storage, running_fanout(storage, max_events=1) as fanout:
        fanout.derive([source], target, Made(source, target))
        before = await put(storage, "a", "unrelated")
        revisions = []
        for number in range(6):
            prefix = (target, source, source)[number % 3]
            revisions.append(await storage.transact([], [Put(f"{prefix}a/{number}", b"1")]))
            await storage.transact([], [Put(f"{prefix}b/{number}", b"1")])
        live = await put(storage, "a", "unrelated")
        await fanout.reached(live)
        resumed = fanout.attach(target, cluster="a", after=before)
        found = await taken(resumed, 6)
        assert [(event.route.name, event.mod_revision) for event in found] == list(
            zip(["0", "made", "made", "3", "made", "made"], revisions, strict=True)
        )
        later = await storage.transact([], [Put(f"{target}a/later", b"1")])
        assert [event.mod_revision for event in await taken(resumed, 1)] == [later]


async def test_listeners_to_everything_hear_what_is_stored() -> None:
    """Every event of every resource, after those who listen to the resource; nothing that only follows from it."""
    heard: list[tuple[str, str]] = []
    target = "/registry/core/targets/"

    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        fanout.listen(PREFIX, lambda event: heard.append(("resource", event.route.name)))
        fanout.listen_all(lambda event: heard.append(("everything", event.route.name)))
        fanout.derive([PREFIX], target, Made(PREFIX, target))
        await put(storage, "a", "one")
        await fanout.reached(await storage.transact([], [Put("/registry/core/others/a/two", b"1")]))
    assert heard == [("resource", "one"), ("everything", "one"), ("everything", "two")]


async def test_after_a_gap_watches_and_caches_end_before_anything_after_it_is_read() -> None:
    """After a restart, watches have ended and the revision is that of the store when caches are cleared, before other tasks run."""
    seen: list[tuple[bool, int, int, bool]] = []
    async with MemoryStorage() as storage:
        async with running_fanout(storage) as fanout:
            fanout.listen_gaps(lambda: seen.append((watcher.ended, fanout.revision, len(fanout._ring), waiting.done())))
            before = await put(storage, "a", "before")
            await fanout.reached(before)
            watcher = fanout.attach(PREFIX, cluster="a", after=before)
            assert not seen, "the first start is no gap"
        missed = await put(storage, "a", "missed")
        waiting = asyncio.ensure_future(fanout.reached(missed))
        meanwhile = fanout.attach(PREFIX, cluster="a", after=before)
        async with running(fanout):
            assert seen == [(True, missed, 0, False)]
            await waiting
            for ended in (watcher, meanwhile):
                with pytest.raises(WatchEndedError):
                    await ended.take()
            resumed = fanout.attach(PREFIX, cluster="a", after=before)
            await put(storage, "a", "after")
            assert [event.route.name for event in await taken(resumed, 2)] == ["missed", "after"]
            assert len(seen) == 1


async def test_detached_watchers_leave_nothing_behind() -> None:
    """After the last watcher of a resource is gone, the feed holds nothing for it."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        watchers = [fanout.attach(PREFIX, cluster=cluster, after=fanout.revision) for cluster in ("a", "a", "b", "")]
        assert fanout.watchers == 4
        for watcher in watchers:
            await fanout.detach(watcher)
            await fanout.detach(watcher)
        assert fanout.watchers == 0
        assert not fanout._hubs


async def test_names_that_are_watched() -> None:
    """In one cluster, until the last watcher of the name there has gone. Watchers over all clusters, and of all names, do not count."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        places = [("a", "x"), ("a", "x"), ("a", ""), ("b", "y"), ("", "x")]
        watchers = [fanout.reserve(PREFIX, cluster=cluster, name=name) for cluster, name in places]

        def named() -> list[tuple[str, str]]:
            return [(cluster, name) for cluster in ("a", "b", "") for name in ("x", "y", "") if fanout.is_named(PREFIX, cluster, name)]

        assert named() == [("a", "x"), ("b", "y")]
        await fanout.detach(watchers[0])
        await fanout.detach(watchers[0])
        assert named() == [("a", "x"), ("b", "y")]
        await fanout.detach(watchers[1])
        assert named() == [("b", "y")]
        for watcher in watchers[2:]:
            await fanout.detach(watcher)
        assert named() == []


async def test_events_that_are_derived_on_demand() -> None:
    """A watcher of the name gets them from the history of the store, even where the ring reaches back far enough."""
    source, target = "/registry/core/sources/", "/registry/core/targets/"
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        made = Made(source, target, is_wanted=lambda: fanout.is_named(target, "a", "made"))
        fanout.derive([source], target, made, on_demand="made")
        start = await storage.revision()
        await fanout.reached(await storage.transact((), (Put(f"{source}a/one", b"1"),)))
        named = fanout.attach(target, cluster="a", name="made", after=start)
        other = fanout.attach(target, cluster="a", after=start)
        await storage.transact((), (Put(f"{source}a/two", b"2"),))
        assert [event.value for event in await taken(named, 2)] == [b"1", b"2"]
        assert [event.value for event in await taken(other, 1)] == [b"2"]
        for watcher in (named, other):
            await fanout.detach(watcher)


class Slow(Made):
    """Waits before it makes its event."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        self.asked.set()
        await self.goes_on.wait()
        return await super().seen(events, stored)


async def test_a_watcher_that_comes_while_events_are_derived_misses_none() -> None:
    """The revision is distributed after the watcher has begun, with the events that are derived for it alone."""
    source, slow_target, target = "/registry/core/sources/", "/registry/core/slow/", "/registry/core/targets/"
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        slow = Slow(source, slow_target)
        fanout.derive([source], slow_target, slow)
        fanout.derive([source], target, Made(source, target, is_wanted=lambda: fanout.is_named(target, "a", "made")), on_demand="made")
        before = await storage.revision()
        await storage.transact((), (Put(f"{source}a/one", b"1"),))
        async with asyncio.timeout(60):
            await slow.asked.wait()
        named = fanout.attach(target, cluster="a", name="made", after=before)
        slow.goes_on.set()
        assert [event.value for event in await taken(named, 1)] == [b"1"]
        await fanout.detach(named)
