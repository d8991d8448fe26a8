"""The fan-out delivers every event once, in order, to matching watchers only."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import WatchEndedError, WatchOverflowError
from tests.watchcache.fanouts import PREFIX, Made, name_of, put, running, running_fanout, taken

pytestmark = pytest.mark.anyio


async def test_events_reach_the_watchers_of_their_cluster_and_the_wildcard_only() -> None:
    """A watcher of one cluster never sees an event of another; the wildcard sees both."""
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        a = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        everything = fanout.attach(PREFIX, after=fanout.revision)
        await put(storage, "b", "one")
        await put(storage, "a", "two")
        assert [name_of(event) for event in await taken(everything, 2)] == ["b/default/one", "a/default/two"]
        assert [name_of(event) for event in await taken(a, 1)] == ["a/default/two"]


async def test_revisions_of_objects_and_of_internal_keys_come_in_their_order() -> None:
    """Also where they are in one batch: several objects of one revision, revisions of internal keys alone, and those of both."""
    internal = "/registry/.kcp-py/mark"
    heard: list[str] = []
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        fanout.listen_internal(internal, lambda event: heard.append(f"internal {event.mod_revision}"))
        fanout.listen(PREFIX, lambda event: heard.append(f"{event.route.name} {event.mod_revision} after {fanout.revision}"))
        watcher = fanout.attach(PREFIX, cluster="a", after=fanout.revision)
        start = fanout.revision
        one, two, three = (f"{PREFIX}a/default/{name}" for name in ("one", "two", "three"))
        await storage.transact([], [Put(one, b"x"), Put(internal, b"1"), Put(two, b"x")])
        await storage.transact([], [Put(internal, b"2")])
        await storage.transact([], [Put(three, b"x")])
        await fanout.reached(last := await storage.transact([], [Put(internal, b"3"), Delete(one)]))
        assert [(event.route.name, event.mod_revision - start) for event in await taken(watcher, 4)] == [
            ("one", 1),
            ("two", 1),
            ("three", 3),
            ("one", 4),
        ]
        assert fanout.revision == fanout.object_revision == last == start + 4
    assert heard == [
        f"internal {start + 1}",
        f"one {start + 1} after {start}",
        f"two {start + 1} after {start}",
        f"internal {start + 2}",
        f"three {start + 3} after {start + 2}",
        f"internal {start + 4}",
        f"one {start + 4} after {start + 3}",
    ]


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
