"""Watchers receive the events that follow from other resources, live and from history."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kcp_py.storage.contract import Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import ObjectEvent
from tests.watchcache.fanouts import Made, put, running_fanout, taken

pytestmark = pytest.mark.anyio


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
