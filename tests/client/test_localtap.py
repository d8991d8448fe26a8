"""The tap on the store of the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import EVERYTHING, ObjectFilter, StoredResource
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, CRDS, WIDGETS, Registry, config_map, make_crd, open_registry
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
OTHER = Name("team-b")


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def test_changes_begin_with_what_is_wanted(registry: Registry) -> None:
    """Of the existing objects only the wanted ones are shown, then every change."""
    client = registry.client
    for name in ("one", "two"):
        await client.create(TEAM, CONFIG_MAPS, config_map(name))
    await registry.fanout.reached(await registry.storage.revision())
    changes = registry.tap.changes(CONFIG_MAPS, wanted=ObjectFilter(contains=((b'"two"',),)))
    assert (await anext(changes)).name == "two"
    await client.create(OTHER, CONFIG_MAPS, config_map("three"))
    await client.delete(TEAM, CONFIG_MAPS, "default", "one")
    three, one = await anext(changes), await anext(changes)
    await changes.aclose()
    assert (three.cluster, three.name, three.value is None) == ("team-b", "three", False)
    assert (one.cluster, one.name, one.value) == ("team-a", "one", None)


async def test_it_is_known_whether_existing_objects_are_read(registry: Registry) -> None:
    """From the beginning of each reader until it has read all pages, also between breaks, when nothing waits."""
    tap = registry.tap
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    await registry.fanout.reached(await registry.storage.revision())
    assert not tap.reads_existing
    changes = tap.changes(CONFIG_MAPS, wanted=EVERYTHING)
    assert (await anext(changes)).name == "one"
    assert tap.reads_existing
    following = asyncio.ensure_future(anext(changes))
    await until_idle()
    assert not tap.reads_existing
    following.cancel()
    await asyncio.wait([following])
    await changes.aclose()
    scan = tap.progress.scan("", concerned=EVERYTHING)
    await anext(scan)
    assert tap.reads_existing
    await scan.aclose()
    assert not tap.reads_existing


async def test_collections_are_deleted_but_for_what_waits(registry: Registry) -> None:
    """Objects with finalizers are marked and counted; a settled finalizer is not waited for."""
    client = registry.client
    await client.create(TEAM, CONFIG_MAPS, config_map("free"))
    await client.create(TEAM, CONFIG_MAPS, config_map("held", finalizers=["example.com/a"]))
    await client.create(TEAM, CONFIG_MAPS, config_map("settled", finalizers=["example.com/b"]))
    resource = StoredResource(CONFIG_MAPS.group_resource, custom=False, namespaced=True)
    remaining = await registry.tap.delete_stored(TEAM, resource, settled={"example.com/b"})
    assert (remaining.objects, remaining.finalizers) == (1, {"example.com/a": 1})
    (held,) = (await client.list(TEAM, CONFIG_MAPS)).items
    assert held["metadata"]["name"] == "held"
    assert held["metadata"]["deletionTimestamp"]
    again = await registry.tap.delete_stored(TEAM, resource)
    assert again.objects == 1
    assert (await client.get(TEAM, CONFIG_MAPS, "default", "held")) == held


async def test_stored_resources_know_definitions_that_are_not_served(registry: Registry) -> None:
    """A CRD counts from its creation on, and comes before the built-in resources."""
    await registry.client.create(TEAM, CRDS, make_crd())
    first, *rest = await registry.tap.stored_resources(TEAM)
    assert (str(first.group_resource), first.custom) == ("widgets.example.com", True)
    assert not any(resource.custom for resource in rest)
    assert len({resource.group_resource for resource in rest}) == len(rest)


async def test_a_resource_that_the_server_does_not_store_is_refused(registry: Registry) -> None:
    """400 for a resource without a CRD that no source declares; nothing is deleted."""
    widgets = StoredResource(WIDGETS.group_resource, custom=False, namespaced=True)
    with pytest.raises(StatusError) as refused:
        await registry.tap.delete_stored(TEAM, widgets)
    assert (refused.value.code, refused.value.message) == (400, "the server stores no widgets.example.com")
