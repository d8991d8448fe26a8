"""What a transaction does to the usage of its cluster follows from its operations and conditions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import NOTHING, Used
from kcp_py.registry.quota.growth import count_used, growth_of
from kcp_py.storage.contract import Compare, ConflictError, Delete, Put
from kcp_py.storage.memory import MemoryStorage

pytestmark = pytest.mark.anyio

ROOT = "/registry"
TEAM = Name("team-a")
KEY = f"{ROOT}/core/configmaps/{TEAM}/default/a"


async def test_creates_updates_and_deletions():
    """Objects are counted by their conditions, bytes by their stored forms."""
    async with MemoryStorage() as storage:
        made = await growth_of(storage, ROOT, TEAM, (Compare(KEY, mod_revision=0),), (Put(KEY, b"12345"),), enforced=True)
        assert (made.used, made.refused, made.name, str(made.resource)) == (Used(1, 5), Used(1, 5), "a", "configmaps")
        revision = await storage.transact((), (Put(KEY, b"12345"),))
        held = (Compare(KEY, mod_revision=revision),)
        assert (await growth_of(storage, ROOT, TEAM, held, (Put(KEY, b"123456"),), enforced=True)).used == Used(0, 1)
        gone = await growth_of(storage, ROOT, TEAM, held, (Delete(KEY),), enforced=False)
        assert (gone.used, gone.refused) == (Used(-1, -5), NOTHING)


async def test_an_object_that_changed_meanwhile_is_a_conflict():
    """Its size is not the one that the transaction replaces."""
    async with MemoryStorage() as storage:
        revision = await storage.transact((), (Put(KEY, b"1"),))
        await storage.transact((), (Put(KEY, b"22"),))
        with pytest.raises(ConflictError):
            await growth_of(storage, ROOT, TEAM, (Compare(KEY, mod_revision=revision),), (Delete(KEY),), enforced=True)


async def test_an_unconditional_write_gets_a_condition():
    """Otherwise the object could change between the two."""
    async with MemoryStorage() as storage:
        revision = await storage.transact((), (Put(KEY, b"1"),))
        found = await growth_of(storage, ROOT, TEAM, (), (Delete(KEY), Delete(f"{KEY}b")), enforced=True)
        assert found.used == Used(-1, -1)
        assert found.compares == (Compare(KEY, mod_revision=revision), Compare(f"{KEY}b", mod_revision=0))


async def test_the_logical_cluster_internal_keys_and_other_clusters_do_not_count():
    """They are not content of the cluster."""
    async with MemoryStorage() as storage:
        keys = (f"{ROOT}/core.kcp.io/logicalclusters/{TEAM}/cluster", f"{ROOT}/.kcp-py/usage/{TEAM}", f"{ROOT}/core/configmaps/b/default/a")
        found = await growth_of(storage, ROOT, TEAM, (), [Put(key, b"x") for key in keys], enforced=True)
        assert found.used == NOTHING
        await storage.transact((), [Put(key, b"x") for key in keys])
        assert await count_used(storage, ROOT, TEAM) == NOTHING


async def test_a_deletion_has_little_room():
    """Who removes a finalizer cannot store something large with it."""
    async with MemoryStorage() as storage:

        def stored(finalizers: int, *, text: str = "", deleted: bool = True, manager: str = "") -> bytes:
            metadata: dict[str, Any] = {"finalizers": [f"example.com/{number}" for number in range(finalizers)]}
            if manager:
                metadata["managedFields"] = [{"manager": manager}]
            if deleted:
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return orjson.dumps({"metadata": metadata, "data": text})

        async def refused(before: bytes, after: bytes) -> Used:
            revision = await storage.transact((), (Put(KEY, before),))
            held = (Compare(KEY, mod_revision=revision),)
            return (await growth_of(storage, ROOT, TEAM, held, (Put(KEY, after),), enforced=True)).refused

        assert await refused(stored(2, deleted=False), stored(2)) == NOTHING
        assert await refused(stored(2), stored(1, manager="x" * 500)) == NOTHING
        assert await refused(stored(2, manager="x"), stored(1, text="x" * 10, manager="xxx")) == NOTHING
        assert (await refused(stored(2), stored(1, manager="x" * 2000))).size > 1900
        assert (await refused(stored(2), stored(1, text="x" * 500))).size > 400
        assert (await refused(stored(2), stored(2, text="x" * 10))).size == 10
        assert (await refused(stored(1), stored(2))).size > 0
        forged = {"metadata": {}, "data": {"deletionTimestamp": "x"}}
        assert (await refused(orjson.dumps({"metadata": {}}), orjson.dumps(forged))).size > 0


@pytest.mark.parametrize("cluster", ["team-a", "customresources", "system:admin", "a" * 63])
async def test_a_count_finds_every_object_of_a_cluster_alone(cluster):
    """Built-in and custom, in namespaces and not; whatever other clusters are named."""
    segment = "customresources." if cluster == "customresources" else cluster
    own = [
        f"{ROOT}/core/configmaps/{segment}/default/a",
        f"{ROOT}/core/namespaces/{segment}/n",
        f"{ROOT}/core/events/{segment}/default/e",
        f"{ROOT}/apiextensions.k8s.io/customresourcedefinitions/{segment}/widgets.example.com",
        f"{ROOT}/example.com/widgets/customresources/{segment}/default/w",
        f"{ROOT}/apps/deployments/customresources/{segment}/default/w",
        f"{ROOT}/apps/deployments/{segment}/default/w",
    ]
    others = [key.replace(f"/{segment}/", f"/{other}/") for key in own for other in ("team-aa", "team", "z")]
    async with MemoryStorage() as storage:
        await storage.transact((), [Put(key, b"123") for key in (*own, *others, f"{ROOT}/.kcp-py/quotas/{cluster}", f"{ROOT}/.kcp-py/x")])
        assert await count_used(storage, ROOT, Name(cluster)) == Used(6, 21, 1)
