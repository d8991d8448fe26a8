"""What a controller was called for may be gone, or another by now."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.controllers import objects
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, NAMESPACES, config_map, open_registry

pytestmark = pytest.mark.anyio

KEY = Key(Name("team-a"), "", "default")
CONDITION = {"type": "Checked", "status": "True"}
NOW = "2026-01-01T00:00:00Z"


async def test_find() -> None:
    """The object, or None where there is none; whatever else fails is raised."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        found = await objects.find(registry.client, NAMESPACES, KEY)
        assert found is not None
        assert found["metadata"]["name"] == "default"
        assert await objects.find(registry.client, NAMESPACES, Key(KEY.cluster, "", "absent")) is None
        unknown = NAMESPACES._replace(version="v7")
        assert await objects.find(registry.client, unknown, KEY) is None
    with pytest.raises(StatusError) as caught:
        await objects.find(registry.client, NAMESPACES, Key(Name("team-b"), "", "default"))
    assert caught.value.code == 503


async def test_an_object_is_deleted_at_its_end() -> None:
    """Not before, not without an end, and not in the place of another object."""
    async with open_registry(MemoryStorage()) as registry:
        client, key = registry.client, KEY._replace(namespace="default", name="one")
        await client.create(KEY.cluster, CONFIG_MAPS, config_map("one"))

        async def at(now: float, end: float | None) -> int | Later:
            return await objects.delete_at_end(client, CONFIG_MAPS, key, ends_at=lambda _: end, now=now)

        assert await at(10, None) == 0
        assert await at(10, 17) == Later(7)
        assert await at(10, 10_000) == Later(objects.LONGEST_WAIT_SECONDS)
        assert await objects.find(client, CONFIG_MAPS, key) is not None
        assert await at(17, 17) == 0
        assert await objects.find(client, CONFIG_MAPS, key) is None
        assert await at(17, 17) == 0


async def test_report() -> None:
    """A condition is written once, and never over what has changed since the object was read."""
    async with open_registry(MemoryStorage()) as registry:
        await registry.clusters.ensure(KEY.cluster)
        read = await registry.client.get(KEY.cluster, NAMESPACES, "", KEY.name)
        await objects.report(registry.client, NAMESPACES, KEY, obj=read, conditions=[CONDITION], now=NOW)
        written = await registry.client.get(KEY.cluster, NAMESPACES, "", KEY.name)
        assert written["status"] == {"phase": "Active", "conditions": [CONDITION | {"lastTransitionTime": NOW}]}
        revision = await registry.storage.revision()
        await objects.report(registry.client, NAMESPACES, KEY, obj=written, conditions=[CONDITION], now="2026-01-02T00:00:00Z")
        assert await registry.storage.revision() == revision
        with pytest.raises(StatusError) as caught:
            await objects.report(registry.client, NAMESPACES, KEY, obj=read, conditions=[CONDITION | {"status": "False"}], now=NOW)
        assert caught.value.reason == "Conflict"
