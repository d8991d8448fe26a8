"""Objects under keys of earlier releases are found again, and those of other clusters stay where they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.storage.contract import Delete, KeyValue, Put, Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.opening import open_storage
from kcp_py.tenancy.key_migration import migrate_keys
from tests.controlplane.test_controlplane import running
from tests.server.handlers.conftest import config_map, options

pytestmark = pytest.mark.anyio

ROOT = "/registry"
CLUSTER = "core.kcp.io/logicalclusters/customresources/cluster"


def stored(name: str, namespace: str = "") -> bytes:
    return orjson.dumps(
        {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
    )


async def filled(storage: Storage, *keys: tuple[str, str]) -> None:
    for key, namespace in keys:
        await storage.transact([], [Put(f"{ROOT}/{key}", stored(key.rpartition("/")[2], namespace))])


async def contents(storage: Storage) -> dict[str, bytes]:
    found: list[KeyValue] = (await storage.range(f"{ROOT}/")).items
    return {item.key.removeprefix(f"{ROOT}/"): item.value for item in found}


OLD = (
    (CLUSTER, ""),
    ("core/namespaces/customresources/default", ""),
    ("core/configmaps/customresources/default/game", "default"),
    ("apps/deployments/customresources/x/web", "x"),
)
OTHERS = (
    (".kcp-py/continue-token-key", ""),
    ("apps/deployments/customresources/y/web", ""),
    ("apps/deployments/customresources/x/x/web", "x"),
    ("core.kcp.io/logicalclusters/x/cluster", ""),
    ("core/configmaps/x/default/game", "default"),
    ("example.com/widgets/customresources/x/default/one", "default"),
    ("example.com/gears/customresources/default/one", ""),
)


async def test_only_the_ambiguous_keys_move() -> None:
    """Objects of built-in kinds of the cluster move, with their bytes; custom resources and other clusters stay."""
    async with MemoryStorage() as storage:
        await filled(storage, *OLD, *OTHERS)
        before = await contents(storage)
        assert await migrate_keys(storage, ROOT) == len(OLD)
        moved = {key.replace("/customresources/", "/customresources./", 1): before[key] for key, _ in OLD}
        assert await contents(storage) == {**{key: before[key] for key, _ in OTHERS}, **moved}
        revision = await storage.revision()
        assert await migrate_keys(storage, ROOT) == 0
        assert await storage.revision() == revision


async def test_without_such_a_cluster() -> None:
    """Nothing is moved in a store without a cluster of that name, whatever lies under such keys."""
    async with MemoryStorage() as storage:
        await filled(storage, *OTHERS, ("core/configmaps/customresources/default/game", "default"))
        before = await contents(storage)
        assert await migrate_keys(storage, ROOT) == 0
        assert await contents(storage) == before


async def test_what_was_interrupted_goes_on() -> None:
    """The cluster's own object moves last; an object that is there already under its new key is not overwritten."""
    async with MemoryStorage() as storage:
        await filled(storage, *OLD, ("core/configmaps/customresources./default/other", "default"))
        await storage.transact([], [Put(f"{ROOT}/apps/deployments/customresources./x/web", b'{"metadata":{"new":1}}')])
        assert await migrate_keys(storage, ROOT) == len(OLD) - 1
        found = await contents(storage)
        assert found["apps/deployments/customresources./x/web"] == b'{"metadata":{"new":1}}'
        assert "apps/deployments/customresources/x/web" in found
        assert CLUSTER not in found


async def test_several_servers_at_once() -> None:
    """Two servers that start at the same time move each object once."""
    async with MemoryStorage() as storage:
        await filled(storage, *OLD)
        moved = await asyncio.gather(migrate_keys(storage, ROOT), migrate_keys(storage, ROOT))
        assert sum(moved) == len(OLD)


async def test_a_server_opens_an_earlier_store(tmp_path: Path) -> None:
    """A cluster that was made by an earlier release is served with all its objects."""
    path = "/clusters/customresources/api/v1/namespaces/default/configmaps"
    file = tmp_path / "kcp.db"
    async with running(ControlPlane(options(tmp_path), storage=open_storage("sqlite", path=file))) as api:
        await api.ok("POST", path, config_map("game"))
    async with open_storage("sqlite", path=file) as storage:
        for item in (await storage.range(f"{ROOT}/")).items:
            if "/customresources./" in item.key:
                earlier = item.key.replace("/customresources./", "/customresources/")
                await storage.transact([], [Delete(item.key), Put(earlier, item.value)])
    async with running(ControlPlane(options(tmp_path), storage=open_storage("sqlite", path=file))) as api:
        listed = await api.ok("GET", path)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["game"]
