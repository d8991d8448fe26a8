"""Looking at all objects of a cluster at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kcp_py.controllers.runtime.sweeps import PAGE, delete_unchanged, pages
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, Registry, open_registry

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def test_all_pages_are_read(registry: Registry) -> None:
    """A cluster that does not serve the resource has none."""
    for number in range(PAGE + 1):
        await registry.client.create(TEAM, CONFIG_MAPS, {"metadata": {"name": f"map-{number}", "namespace": "default"}})
    sizes = [len(page) async for page in pages(registry.client, TEAM, CONFIG_MAPS)]
    assert sizes == [PAGE, 1]
    assert [page async for page in pages(registry.client, TEAM, CONFIG_MAPS._replace(resource="unserved"))] == []


async def test_objects_that_have_changed_stay(registry: Registry) -> None:
    """So do those of the same name that were created since."""
    client = registry.client
    read = []
    for name in ("unchanged", "changed", "gone"):
        made = await client.create(TEAM, CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
        read.append(made["metadata"])
    await client.patch(TEAM, CONFIG_MAPS, "default", "changed", document={"data": {"a": "b"}})
    await client.delete(TEAM, CONFIG_MAPS, "default", "gone")
    await delete_unchanged(client, TEAM, CONFIG_MAPS, read)
    left = {item["metadata"]["name"] for item in (await client.list(TEAM, CONFIG_MAPS, "default")).items}
    assert "changed" in left
    assert not {"unchanged", "gone"} & left
