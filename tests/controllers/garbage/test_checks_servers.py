"""Checkpoints of several servers on one etcd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kcp_py.logicalcluster import Name
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage
from tests.client.registry import CONFIG_MAPS, NAMESPACES, ROOT, Registry, namespace, open_registry
from tests.controllers.garbage.dependents import add, exists, reference
from tests.controllers.garbage.test_checks import NAME, collect, progress_of, saved
from tests.storage.etcd.conftest import EtcdServer

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
OWNERS = 20


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path)
    server.start()
    yield server
    server.stop()


async def server(stack: AsyncExitStack, etcd: EtcdServer) -> Registry:
    """The registry of one more server."""
    await etcd.wait()
    return await stack.enter_async_context(open_registry(EtcdStorage(EtcdOptions(endpoints=(etcd.url,), prefix=ROOT))))


async def test_the_next_leader_continues_where_the_last_one_was(etcd: EtcdServer) -> None:
    """It reads what changed since the checkpoint of the other server, through whichever server, and no more."""
    async with AsyncExitStack() as stack:
        writing = await server(stack, etcd)
        async with AsyncExitStack() as first:
            leader = await server(first, etcd)
            assert collect(leader).starts == []
            owner = await add(writing, TEAM, "owner")
            await add(writing, TEAM, "child", reference(owner))
            await add(writing, OTHER, "child", reference(await add(writing, OTHER, "owner")))
            await saved(leader)
        await writing.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
        next_leader = await server(stack, etcd)
        progress = collect(next_leader)
        await writing.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        await saved(next_leader)
        assert progress.starts == []
        assert await exists(writing, OTHER, "child")


async def test_the_checkpoints_of_two_leaders_lose_no_work(etcd: EtcdServer) -> None:
    """For a moment two servers may take themselves for the leader: both write checkpoints, and work that no one does is found later."""
    async with AsyncExitStack() as stack:
        writing = await server(stack, etcd)
        owners = {}
        async with AsyncExitStack() as both:
            for _ in range(2):
                collect(await server(both, etcd))
            for number in range(OWNERS):
                cluster = Name(f"c{number}")
                owners[cluster] = await add(writing, cluster, "owner")
                await add(writing, cluster, "child", reference(owners[cluster]))
                if number % 2:
                    await writing.client.delete(cluster, CONFIG_MAPS, "default", "owner")
        for cluster in owners:
            if await exists(writing, cluster, "owner"):
                await writing.client.delete(cluster, CONFIG_MAPS, "default", "owner")
        collect(await server(stack, etcd))
        for cluster in owners:
            await writing.until_gone(cluster, CONFIG_MAPS, "default", "child")


async def test_an_older_checkpoint_is_as_true_as_a_newer_one(etcd: EtcdServer) -> None:
    """A server that was paused writes the checkpoint of long ago over that of the present leader."""
    async with AsyncExitStack() as stack:
        writing = await server(stack, etcd)
        async with AsyncExitStack() as first:
            leader = await server(first, etcd)
            collect(leader)
            owner = await add(writing, TEAM, "owner")
            await add(writing, TEAM, "child", reference(owner))
            old = await saved(leader)
            await add(writing, OTHER, "one")
            await saved(leader)
        await writing.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
        await writing.client.create(TEAM, NAMESPACES, namespace("later"))
        assert await progress_of(writing).save(NAME, old)
        progress = collect(await server(stack, etcd))
        await writing.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        assert progress.starts == []
