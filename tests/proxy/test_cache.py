"""The cache of one resource in front of a server that loses events, connections and its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kcp_py.proxy.cache import ResourceCache
from kcp_py.proxy.eventlog import Watcher
from kcp_py.proxy.items import GoneError
from kcp_py.proxy.upstream import Upstream
from tests.proxy.scripted import PATIENCE, PLACE, Scripted, scripted, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def cached(server: Scripted) -> AsyncIterator[tuple[ResourceCache, asyncio.Task[None]]]:
    """A cache that has loaded and watches, without pauses between its tries."""

    async def sleep(_: float) -> None:
        await asyncio.sleep(0.01)

    upstream = Upstream(server.context)
    cache = ResourceCache(PLACE, upstream, sleep=sleep)
    task = asyncio.create_task(cache.run())
    try:
        assert await cache.loaded(PATIENCE)
        await until(lambda: server.waiting == 1)
        yield cache, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await upstream.aclose()


def watcher_of(cache: ResourceCache, version: int | None = None) -> Watcher:
    begun = cache.watch(version)
    assert begun is not None
    return begun[0]


async def seen(watcher: Watcher, count: int) -> list[tuple[str, str, int]]:
    """Kinds, names and versions of the next events."""
    found: list[tuple[str, str, int]] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            events = await watcher.take()
            assert events, "the watch has ended"
            found += [(event.kind, "" if event.item is None else event.item.name, event.version) for event in events]
    return found


def names(cache: ResourceCache) -> list[str]:
    return [item.name for item in cache.items("", "")]


@pytest.mark.parametrize("refusal", [410, -410, 504], ids=["a-status", "an-event", "newer-than-the-server"])
async def test_events_that_the_server_has_forgotten(refusal: int) -> None:
    """The watch is answered with 410: the cache lists again, and its clients see the differences as events."""
    async with scripted() as server:
        for name in ("kept", "changed", "one", "two"):
            server.put(name)
        async with cached(server) as (cache, _):
            watcher = watcher_of(cache)
            server.put("before")
            assert await seen(watcher, 1) == [("ADDED", "before", 105)]
            server.refusal = refusal
            # The events of what happens now are not seen by the cache.
            server.end_watches()
            server.floor = 200
            server.version = 110
            server.delete("one", "two", silently=True)
            server.put("changed", key="new")
            server.put("new")
            lists = server.asked["list"]
            await until(lambda: server.asked["list"] > lists + 3)
            server.refusal = server.floor = 0
            expected = [("MODIFIED", "changed", 113), ("ADDED", "new", 114), ("DELETED", "one", 114), ("DELETED", "two", 114)]
            assert await seen(watcher, 4) == expected
            assert names(cache) == ["before", "changed", "kept", "new"]
            # Three events have this version.
            assert cache.watch(114) is None
            server.put("later")
            assert await seen(watcher, 1) == [("ADDED", "later", 115)]
            assert cache.watch(115) is not None


@pytest.mark.parametrize("is_cut", [True, False], ids=["a-cut", "in-order"])
async def test_another_history(*, is_cut: bool) -> None:
    """A server that comes back with an older state is listed again, and clients are told that their versions mean nothing."""
    async with scripted() as server:
        server.put("one")
        server.put("two")
        async with cached(server) as (cache, _):
            watcher = watcher_of(cache)
            cache.note_write(102)
            server.restore(50, "two", "restored")
            if is_cut:
                server.cut()
            else:
                server.end_watches()
            async with asyncio.timeout(PATIENCE):
                assert await watcher.take() == []
            assert watcher.expired
            assert (names(cache), cache.version, cache.written) == (["restored", "two"], 50, 0)
            assert cache.watch(49) is None
            await until(lambda: server.waiting == 2)
            follower = watcher_of(cache, 50)
            server.put("three")
            assert await seen(follower, 1) == [("ADDED", "three", 51)]
            # A version of the history before.
            assert not await cache.has_come_to(102)
            assert await cache.has_come_to(51)


async def test_versions_of_other_resources() -> None:
    """The server may be further than the last event of a quiet resource."""
    async with scripted() as server, cached(server) as (cache, _):
        server.version = 500
        assert await cache.has_come_to(400)
        assert cache.version == 100
        assert not await cache.has_come_to(501)
        server.bookmark()
        assert await cache.reached(500, PATIENCE)
        asked = server.asked["newest"]
        assert await cache.has_come_to(500)
        assert server.asked["newest"] == asked


async def test_the_end_of_a_cache() -> None:
    """Nothing is answered from objects that are not followed any more, and no watch waits there."""
    async with scripted() as server:
        server.put("one")
        async with cached(server) as (cache, task):
            watcher = watcher_of(cache)
            waiting = asyncio.create_task(cache.reached(1000, PATIENCE))
            server.statuses = {"newest": [403], "watch": [403]}
            server.end_watches()
            with pytest.raises(GoneError):
                await task
            assert not await waiting
            assert watcher.ended
            assert (cache.ended, cache.is_loaded, await cache.loaded(0)) == (True, False, False)
            assert cache.watch(None) is None


async def test_a_token_that_ends() -> None:
    """One refusal may mean that it has just been replaced; the second one ends the cache."""
    async with scripted() as server, cached(server) as (cache, task):
        server.statuses = {"newest": [401]}
        server.end_watches()
        await until(lambda: server.waiting == 2)
        assert cache.is_loaded
        server.statuses = {"newest": [401, 401]}
        server.end_watches()
        with pytest.raises(GoneError):
            await task


async def test_losses() -> None:
    """The objects stay while the server is away, and nothing is listed again when it is back."""
    async with scripted() as server:
        server.put("one")
        async with cached(server) as (cache, _):
            watcher = watcher_of(cache)
            await server.stop()
            await until(lambda: cache.lost)
            assert (cache.is_loaded, names(cache)) == (True, ["one"])
            assert not await cache.has_come_to(500)
            server.put("two")
            await server.start()
            assert await seen(watcher, 1) == [("ADDED", "two", 102)]
            await until(lambda: not cache.lost)
            assert server.asked["list"] == 1


async def test_writes_through_the_proxy() -> None:
    """Reads of the newest state wait for them, until a list that began later has them anyway."""
    async with scripted() as server, cached(server) as (cache, _):
        assert cache.written == 0
        cache.note_write(107)
        cache.note_write(103)
        assert cache.written == 107
        cache.note_write(None)
        assert cache.written is None
        cache._unknown_until = 0
        assert cache.written == 107
        server.refusal = 410
        server.end_watches()
        await until(lambda: cache.written == 0)


async def test_objects_are_in_order() -> None:
    """By namespace and name, whatever comes and goes; those of a namespace without the others."""
    async with scripted() as server:
        for name in ("m", "c", "x"):
            server.put(name)
        async with cached(server) as (cache, _):
            for name in ("a", "z", "n"):
                server.put(name)
            server.delete("m", "z")
            assert await cache.reached(server.version, PATIENCE)
            assert names(cache) == ["a", "c", "n", "x"]
            assert [item.name for item in cache.items("default", "")] == ["a", "c", "n", "x"]
            assert [item.name for item in cache.items("default", "n")] == ["n"]
            assert [item.name for item in cache.items("", "n")] == ["n"]
            assert cache.items("defaul", "") == cache.items("default-", "") == cache.items("default", "m") == []
