"""The controller of namespaces."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.controllers import start_controllers
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    WIDGETS,
    Registry,
    config_map,
    definition,
    namespace,
    open_registry,
    widget,
)

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")


async def test_deletion_takes_the_content_along(registry: Registry) -> None:
    """A namespace goes after everything in it, built-in or custom; other namespaces keep theirs."""
    client = registry.client
    await client.create(TEAM, DEFINITIONS, definition())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    for name in ("shop", "shop-2"):
        await client.create(TEAM, NAMESPACES, namespace(name))
        await client.create(TEAM, CONFIG_MAPS, config_map("one", name))
        await client.create(TEAM, WIDGETS, widget("one", name))
    await client.delete(TEAM, NAMESPACES, "", "shop")
    await registry.until_gone(TEAM, NAMESPACES, "", "shop")
    assert [key for key in await registry.keys("team-a") if "/shop/" in key] == []
    assert len([key for key in await registry.keys("team-a") if "/shop-2/" in key]) == 2


async def test_deletion_waits_for_finalizers(registry: Registry) -> None:
    """A terminating namespace stays while objects wait for finalizers, says so, and takes nothing new."""
    client = registry.client
    await client.create(TEAM, NAMESPACES, namespace("shop"))
    await client.create(TEAM, CONFIG_MAPS, config_map("held", "shop", finalizers=["example.com/hold"]))
    await client.delete(TEAM, NAMESPACES, "", "shop")

    async def reported() -> bool:
        return bool((await client.get(TEAM, NAMESPACES, "", "shop"))["status"].get("conditions"))

    await registry.until(reported)
    found = await client.get(TEAM, NAMESPACES, "", "shop")
    assert found["status"]["phase"] == "Terminating"
    (condition,) = [one for one in found["status"]["conditions"] if one["status"] == "True" and "Finalizers" in one["type"]]
    assert condition["message"] == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    with pytest.raises(StatusError) as caught:
        await client.create(TEAM, CONFIG_MAPS, config_map("late", "shop"))
    assert caught.value.code == 403
    held = await client.get(TEAM, CONFIG_MAPS, "shop", "held")
    del held["metadata"]["finalizers"]
    await client.update(TEAM, CONFIG_MAPS, held)
    await registry.until_gone(TEAM, NAMESPACES, "", "shop")


async def test_a_restart_goes_on_with_the_deletion() -> None:
    """A namespace that was being deleted when the server stopped is emptied by the next one."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one", "shop"))
        await registry.client.delete(TEAM, NAMESPACES, "", "shop")
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client)
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")
        assert [key for key in await registry.keys("team-a") if "/shop" in key] == []
