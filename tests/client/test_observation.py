"""Observing all objects, and reading all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kcp_py.client import EVERYTHING, ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, LOGICAL_CLUSTERS, NAMESPACES, WIDGETS, Registry, config_map, namespace, open_registry, widget

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
MAPS = CONFIG_MAPS.group_resource


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def test_changes_of_all_kinds_in_all_clusters_are_told_in_order(registry: Registry) -> None:
    """With the value before and after, of the requested resources."""
    seen: list[ObjectChange] = []
    registry.tap.observe(seen.append, concerned=ObjectFilter(ignored=frozenset((LOGICAL_CLUSTERS.group_resource,))), missed=lambda: None)
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    await registry.client.create(OTHER, NAMESPACES, namespace("shop"))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "one")
    await registry.fanout.reached(await registry.storage.revision())
    assert [(one.cluster, one.resource, one.namespace, one.name) for one in seen] == [
        (TEAM, MAPS, "default", "one"),
        (OTHER, NAMESPACES.group_resource, "", "shop"),
        (TEAM, MAPS, "default", "one"),
    ]
    assert [(one.value is None, one.previous is None) for one in seen] == [(False, True), (False, True), (True, False)]
    assert seen[2].previous == seen[0].value


async def test_what_is_stored_is_read(registry: Registry) -> None:
    """In one cluster or in all, of one resource or of all, custom ones included; and before the end, observers know as much."""
    await registry.establish(TEAM)
    await registry.client.create(TEAM, WIDGETS, widget("w"))
    for cluster in (TEAM, OTHER):
        for name in ("one", "two", "three"):
            await registry.client.create(cluster, CONFIG_MAPS, config_map(name))
    tap = registry.tap

    everything = [(one.cluster, one.name) async for one in tap.stored_objects(None, concerned=EVERYTHING) if one.resource == MAPS]
    assert sorted(everything) == sorted((cluster, name) for cluster in (TEAM, OTHER) for name in ("one", "two", "three"))
    assert registry.fanout.revision == await registry.storage.revision()
    mine = [(one.resource, one.name) async for one in tap.stored_objects(TEAM, concerned=EVERYTHING)]
    assert (WIDGETS.group_resource, "w") in mine
    assert len([name for resource, name in mine if resource == MAPS]) == 3
    found = [one.name async for one in tap.stored_objects(TEAM, concerned=EVERYTHING, resource=WIDGETS.group_resource)]
    assert found == ["w"]


async def test_reading_ends_at_its_limit(registry: Registry) -> None:
    """Within a page or so."""
    for number in range(450):
        await registry.client.create(TEAM, CONFIG_MAPS, config_map(f"m{number}"))
    found = [one async for one in registry.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS, limit=201)]
    assert len(found) == 400
