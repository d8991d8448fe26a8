"""Events about owners that cannot be owners."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import ApiResource
from kcp_py.controllers.garbage.ownership import Item, Reference
from kcp_py.controllers.garbage.reporting import is_elsewhere, report_invalid_owner
from kcp_py.logicalcluster import Name
from tests.client.registry import CONFIG_MAPS, NAMESPACES, Registry, config_map, namespace
from tests.controllers.garbage.dependents import add

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
EVENTS = GroupVersionResource("", "v1", "events")
MAPS = CONFIG_MAPS.group_resource


async def test_an_event_is_written_once(registry: Registry) -> None:
    """However often it is told, and by however many servers; a cluster-scoped object's is in the namespace `default`."""
    shop = await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
    owner = Reference("v1", "ConfigMap", "owner", "u1", blocks=False)
    for _ in range(2):
        item, uid = Item(NAMESPACES.group_resource, "", "shop"), shop["metadata"]["uid"]
        served = ApiResource(NAMESPACES, "Namespace", namespaced=False)
        await report_invalid_owner(registry.client, TEAM, item, served=served, uid=uid, owner=owner, now="2026-01-01T00:00:00Z")
    (event,) = (await registry.client.list(TEAM, EVENTS, "default")).items
    assert event["message"] == 'ownerRef [v1/ConfigMap, namespace: , name: owner, uid: u1] does not exist in namespace ""'
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": shop["metadata"]["uid"]}
    assert event["source"] == {"component": "garbage-collector-controller"}


async def test_nothing_is_written_into_a_namespace_that_terminates(registry: Registry) -> None:
    """It takes no new events, and that is not a failure of the controller."""
    client = registry.client
    await client.create(TEAM, NAMESPACES, {**namespace("shop"), "metadata": {"name": "shop", "finalizers": ["example.com/hold"]}})
    child = await client.create(TEAM, CONFIG_MAPS, config_map("child", "shop", finalizers=["example.com/hold"]))
    await client.delete(TEAM, NAMESPACES, "", "shop")
    owner = Reference("v1", "ConfigMap", "owner", "u1", blocks=False)
    item, uid = Item(MAPS, "shop", "child"), child["metadata"]["uid"]
    served = ApiResource(CONFIG_MAPS, "ConfigMap", namespaced=True)
    await report_invalid_owner(client, TEAM, item, served=served, uid=uid, owner=owner, now="2026-01-01T00:00:00Z")
    assert (await client.list(TEAM, EVENTS, "shop")).items == []


async def test_elsewhere_is_another_namespace_of_the_same_cluster(registry: Registry) -> None:
    """Neither the namespace itself nor one that only mentions the uid."""
    owner = await add(registry, TEAM, "owner")
    uid = owner["metadata"]["uid"]
    await add(registry, TEAM, "mention", annotations={"example.com/uid": uid})
    assert await is_elsewhere(registry.tap, TEAM, MAPS, "shop", uid)
    assert not await is_elsewhere(registry.tap, TEAM, MAPS, "default", uid)
    assert not await is_elsewhere(registry.tap, Name("team-b"), MAPS, "shop", uid)
