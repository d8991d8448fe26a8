"""A watcher receives the events since its start from the ring, or from the history of the store."""

from __future__ import annotations

import pytest

from kcp_py.storage.contract import CompactedError, Event
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache.backlog import object_events
from tests.watchcache.fanouts import PREFIX, put, running_fanout, taken

pytestmark = pytest.mark.anyio


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


def test_keys_are_read_below_their_own_root() -> None:
    """A key that was read below one root belongs to no resource below another."""
    event = Event("/one/core/configmaps/a/default/x", b"x", 1, 1, None)
    for _ in range(2):
        assert [found.route.prefix for found in object_events([event], "/one")] == ["/one/core/configmaps/"]
        assert object_events([event], "/two") == []


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
