"""Caches within their bounds."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.proxy.caches import Caches
from kcp_py.proxy.reads import Place
from kcp_py.proxy.upstream import Upstream
from tests.proxy.conftest import CLUSTER, PATIENCE, World, configmap
from tests.proxy.scripted import PLACE, scripted, until

pytestmark = pytest.mark.anyio
MAPS, SECRETS = (Place(CLUSTER, "", "v1", resource) for resource in ("configmaps", "secrets"))


async def test_idle_and_large_caches_are_dropped(world: World) -> None:
    """The longest unused first; a cache that is watched is in use. A resource that does not fit is passed on for a while."""
    now = 0.0
    upstream = Upstream(world.context())
    async with world.proxy() as proxied:
        await proxied.create(configmap("large", key="x" * 10_000))
    async with Caches(upstream, most_bytes=20_000, idle_seconds=60, clock=lambda: now) as caches:
        for place in (MAPS, SECRETS):
            cache = caches.open(place)
            assert cache is not None
            assert await cache.loaded(PATIENCE)
            now += 1
        maps = caches.find(MAPS)
        assert maps is not None
        assert maps.size > 10_000
        watch = maps.watch(None)
        assert watch is not None
        now = 60.5
        caches.trim()
        assert [cache.place for cache in caches] == [MAPS, SECRETS]
        now = 61.5
        caches.trim()
        await _ended(caches, 1)
        assert [cache.place for cache in caches] == [MAPS]
        maps._bytes = 30_000
        caches.trim()
        await _ended(caches, 0)
        assert watch[0].ended
        assert caches.open(MAPS) is None
        now += 31
        assert caches.open(MAPS) is not None
    await upstream.aclose()


async def test_caches_stay_while_the_server_is_lost() -> None:
    """They could not be read again. Also reads without the server are uses."""
    now = 0.0
    pods = PLACE._replace(resource="pods")
    async with scripted() as server:
        upstream = Upstream(server.context)
        async with Caches(upstream, most_bytes=20_000, idle_seconds=60, clock=lambda: now) as caches:
            for place in (PLACE, pods):
                cache = caches.open(place)
                assert cache is not None
                assert await cache.loaded(PATIENCE)
            await until(lambda: server.waiting == 2)
            await server.stop()
            await until(lambda: all(cache.lost for cache in caches))
            now = 1000.0
            caches.trim()
            await asyncio.sleep(0)
            assert len(list(caches)) == 2
            assert caches.find(pods) is not None
            await server.start()
            await until(lambda: not any(cache.lost for cache in caches))
            now = 1050.0
            caches.trim()
            await _ended(caches, 1)
            assert [cache.place for cache in caches] == [pods]
        await upstream.aclose()


async def test_writes_are_those_of_all_versions() -> None:
    """A write in one version of a resource changes the objects of the others. Without a cache nothing is remembered."""
    async with scripted() as server:
        upstream = Upstream(server.context)
        one, two = (Place("", "example.com", version, "boats") for version in ("v1", "v2"))
        async with Caches(upstream, most_bytes=20_000, idle_seconds=60) as caches:
            caches.note_write(one, 7)
            opened = [caches.open(place) for place in (one, two, PLACE)]
            caches.note_write(one, 8)
            assert [cache.written for cache in opened if cache is not None] == [8, 8, 0]
        await _ended(caches, 0)
        caches.note_write(one, 9)
        await upstream.aclose()


async def test_selections(world: World) -> None:
    """Names with groups, all, and all but some. What cannot be listed is passed on."""
    upstream = Upstream(world.context())
    deployments = Place("", "apps", "v1", "deployments")
    for resources, wanted in ((("configmaps", "deployments.apps"), {MAPS, deployments}), (("*", "-secrets"), {MAPS, deployments})):
        async with Caches(upstream, resources=resources, most_bytes=1000, idle_seconds=60) as caches:
            assert {place for place in (MAPS, SECRETS, deployments) if caches.open(place) is not None} == wanted
            unserved = caches.find(deployments)
            assert unserved is not None
            assert not await unserved.loaded(PATIENCE)
            await _ended(caches, 1)
            assert caches.open(deployments) is None
    await upstream.aclose()


async def _ended(caches: Caches, left: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(list(caches)) > left:
            await asyncio.sleep(0.01)
