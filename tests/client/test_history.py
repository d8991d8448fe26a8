"""Changes of objects between two revisions."""

from __future__ import annotations

import pytest

from kcp_py.aio.cooperative import Throttle
from kcp_py.client import ObjectChange
from kcp_py.client.history import read_history
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import CompactedError, Put
from kcp_py.storage.keys import Route, internal_key
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, ROOT, Registry, config_map, open_registry

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")


async def read(registry: Registry, after: int, until: int) -> list[ObjectChange]:
    def wanted(route: Route) -> bool:
        return route.prefix.endswith("/configmaps/")

    changes = read_history(registry.storage, ROOT, after, until=until, throttle=Throttle(), wanted=wanted)
    return [change async for batch in changes for change in batch]


async def test_changes_between_two_revisions() -> None:
    """Creations and deletions of the wanted resource, with the values before; no other writes, and nothing where nothing was written."""
    async with open_registry(MemoryStorage()) as registry:
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("before"))
        after = await registry.storage.revision()
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "before")
        await registry.storage.transact([], [Put(internal_key(ROOT, "own"), b"x")])
        until = await registry.storage.revision()
        found = await read(registry, after, until)
        assert [(one.name, one.value is None, one.previous is None) for one in found] == [("one", False, True), ("before", True, False)]
        assert {(one.cluster, one.resource, one.namespace) for one in found} == {(TEAM, CONFIG_MAPS.group_resource, "default")}
        assert await read(registry, until, until) == []
        await registry.storage.compact(until)
        with pytest.raises(CompactedError):
            await read(registry, after, until)


async def test_a_store_that_is_older_is_noticed() -> None:
    """A revision that the store has not reached is not waited for."""
    async with open_registry(MemoryStorage()) as registry:
        revision = await registry.storage.revision()
        assert await read(registry, revision + 9, revision) == []
