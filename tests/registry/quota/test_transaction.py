"""What the transaction of a write has besides: charges, conditions, and the guard of its cluster."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.controllers.content import delete_namespace_content
from tests.client.registry import CONFIG_MAPS, NAMESPACES, config_map, namespace
from tests.registry.quota.conftest import GUARD, QUOTAS, TEAM

pytestmark = pytest.mark.anyio


async def test_many_quotas_and_many_writers_fit_into_transactions(charged, monkeypatch):
    """Each of 60 namespaces has a quota; no transaction has more conditions than etcd takes."""
    for number in range(60):
        await charged.client.create(TEAM, NAMESPACES, namespace(f"n{number}"))
        await charged.quota(namespace=f"n{number}", hard={"configmaps": "5"})
    transact, most = charged.storage.transact, []

    async def watched(compares, operations):
        most.append((len(compares), len(operations)))
        return await transact(compares, operations)

    monkeypatch.setattr(charged.storage, "transact", watched)
    objects = [config_map(f"c{number}", f"n{number % 60}") for number in range(180)]
    await asyncio.gather(*(charged.client.create(TEAM, CONFIG_MAPS, one) for one in objects))
    assert max(compares for compares, _ in most) < 128
    assert len(most) < len(objects)
    assert [await charged.used(namespace=f"n{number}") for number in range(60)] == [{"configmaps": "3"}] * 60


async def test_a_quota_can_be_changed_while_it_is_charged(charged):
    """Charges between the read and the write of a change do not conflict with it."""
    await charged.quota(hard={"configmaps": "1000"})
    done = asyncio.Event()

    async def write(worker: int) -> int:
        number = 0
        while not done.is_set():
            await charged.client.create(TEAM, CONFIG_MAPS, config_map(f"w-{worker}-{number}"))
            number += 1
        return number

    workers = [asyncio.create_task(write(worker)) for worker in range(8)]
    for limit in range(2000, 2010):
        document = {"spec": {"hard": {"configmaps": str(limit)}}}
        await charged.client.patch(TEAM, QUOTAS, "default", "q", document=document)
    done.set()
    written = sum(await asyncio.gather(*workers))
    assert await charged.used() == {"configmaps": str(written)}
    assert (await charged.client.get(TEAM, QUOTAS, "default", "q"))["spec"]["hard"] == {"configmaps": "2009"}


async def test_a_cluster_without_quotas_is_forgotten(charged):
    """The last quota takes all traces along."""
    for name in ("q", "r"):
        await charged.quota(name, hard={"configmaps": "1"})
    await charged.client.delete(TEAM, QUOTAS, "default", "q")
    assert await charged.storage.get(GUARD) is not None or not charged.shared
    await charged.client.delete(TEAM, QUOTAS, "default", "r")
    for name in ("a", "b"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(name))
    assert await charged.storage.get(GUARD) is None
    assert charged.ledger.counts(TEAM, CONFIG_MAPS.group_resource) is charged.shared


async def test_a_namespace_takes_its_quotas_along(charged):
    """Its content is deleted in any order, and leaves nothing of the ledger."""
    await charged.client.create(TEAM, NAMESPACES, namespace("game"))
    await charged.quota(namespace="game", hard={"configmaps": "9"})
    await charged.quota("other", namespace="game", hard={"count/resourcequotas": "9"})
    for number in range(9):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(f"m-{number}", "game"))
    uid = (await charged.client.get(TEAM, NAMESPACES, "", "game"))["metadata"]["uid"]
    content = await delete_namespace_content(charged.registry.tap, TEAM, "game", uid=uid)
    assert not content.resources
    assert [key for key in await charged.registry.keys(TEAM) if "/game/" in key] == []
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await charged.storage.get(GUARD) is None
