"""Changes of owner references."""

from __future__ import annotations

import pytest

from kcp_py.controllers.garbage.ownership import Item
from kcp_py.controllers.garbage.references import OwnerReferences
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, open_registry
from tests.controllers.garbage.dependents import add, owners_of, reference

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")


async def test_an_owner_is_taken_from_the_object_that_is_meant() -> None:
    """By the uid of the owner, from an object with the given uid alone; other owners stay."""
    async with open_registry(MemoryStorage()) as registry:
        first, second = await add(registry, TEAM, "first"), await add(registry, TEAM, "second")
        child = await add(registry, TEAM, "child", reference(first), reference(second))
        references, item = OwnerReferences(registry.client), Item(CONFIG_MAPS.group_resource, "default", "child")
        await references.drop(TEAM, CONFIG_MAPS, item, "another uid", {first["metadata"]["uid"]})
        assert await owners_of(registry, TEAM, "child") == ["first", "second"]
        await references.drop(TEAM, CONFIG_MAPS, item, child["metadata"]["uid"], {first["metadata"]["uid"]})
        assert await owners_of(registry, TEAM, "child") == ["second"]
