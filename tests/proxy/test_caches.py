"""Caches within their bounds."""

from __future__ import annotations

import pytest

from kcp_py.proxy.caches import Caches
from kcp_py.proxy.reads import Place
from kcp_py.proxy.upstream import Upstream
from tests.proxy.conftest import CLUSTER, PATIENCE, World, configmap

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
        maps.size = 30_000
        caches.trim()
        await _ended(caches, 0)
        assert watch[0].ended
        assert caches.open(MAPS) is None
        now += 31
        assert caches.open(MAPS) is not None
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
    import asyncio

    async with asyncio.timeout(PATIENCE):
        while len(list(caches)) > left:
            await asyncio.sleep(0.01)
