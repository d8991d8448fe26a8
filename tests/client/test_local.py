"""The in-process client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import LocalClient
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.registry.rest.patch import JSON_PATCH, STRATEGIC_MERGE_PATCH
from kcp_py.storage.contract import Delete
from kcp_py.storage.memory import MemoryStorage
from kcp_py.testing.client_suite import ClientSuite
from tests.client.registry import CONFIG_MAPS, WIDGETS, Registry, config_map, open_registry, widget
from tests.client.served import options_of

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
OTHER = Name("team-b")


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


class TestLocalClient(ClientSuite):
    """Every promise of the contract."""

    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[LocalClient]:
        async with ControlPlane(options_of(tmp_path)) as control_plane:
            yield control_plane.client


async def test_objects_are_dressed_as_over_http(registry: Registry) -> None:
    """Every answer carries resourceVersion and the cluster, and the optimistic lock holds."""
    client = registry.client
    made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
    assert made == await client.get(TEAM, CONFIG_MAPS, "default", "one")
    assert made["metadata"]["annotations"] == {"kcp.io/cluster": "team-a"}
    updated = await client.update(TEAM, CONFIG_MAPS, {**made, "data": {"a": "c"}})
    assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    with pytest.raises(StatusError) as caught:
        await client.update(TEAM, CONFIG_MAPS, {**made, "data": {"a": "d"}})
    assert caught.value.reason == "Conflict"


async def test_a_patch_changes_what_it_names(registry: Registry) -> None:
    """A merge patch, a JSON patch and, for typed kinds, a strategic merge patch; each by the manager of the program."""
    client = registry.client
    await client.create(TEAM, CONFIG_MAPS, config_map("one"))
    merged = await client.patch(TEAM, CONFIG_MAPS, "default", "one", document={"data": {"b": "c"}})
    assert merged["data"] == {"a": "b", "b": "c"}
    removal = [{"op": "remove", "path": "/data/a"}]
    assert (await client.patch(TEAM, CONFIG_MAPS, "default", "one", document=removal, patch_type=JSON_PATCH))["data"] == {"b": "c"}
    finalizers = {"metadata": {"finalizers": ["a.b/c"]}}
    for _ in range(2):
        patched = await client.patch(TEAM, CONFIG_MAPS, "default", "one", document=finalizers, patch_type=STRATEGIC_MERGE_PATCH)
    assert patched["metadata"]["finalizers"] == ["a.b/c"]
    assert {entry["manager"] for entry in patched["metadata"]["managedFields"]} == {"kcp-py"}


async def test_a_patch_is_refused_as_over_http(registry: Registry) -> None:
    """For a missing object, for a patch type that the kind does not take, for a missing subresource."""
    client = registry.client
    await registry.establish(TEAM)
    await client.create(TEAM, WIDGETS, widget("one"))
    refused: list[tuple[int, str, dict[str, Any]]] = [
        (404, "two", {}),
        (415, "one", {"patch_type": STRATEGIC_MERGE_PATCH}),
        (404, "one", {"subresource": "status"}),
        (422, "one", {"document": {"spec": {"size": "large"}}}),
    ]
    for code, name, more in refused:
        with pytest.raises(StatusError) as caught:
            await client.patch(TEAM, WIDGETS, "default", name, **{"document": {}, **more})
        assert caught.value.code == code


async def test_an_apply_owns_its_fields(registry: Registry) -> None:
    """It makes the object, conflicts with another manager's fields, and takes them by force; what it leaves out goes."""
    client = registry.client
    made = await client.apply(TEAM, CONFIG_MAPS, config_map("one"), field_manager="first")
    assert made["data"] == {"a": "b"}
    other = {**config_map("one"), "data": {"a": "z"}}
    with pytest.raises(StatusError) as caught:
        await client.apply(TEAM, CONFIG_MAPS, other, field_manager="second")
    assert [cause["field"] for cause in (caught.value.details or {})["causes"]] == [".data.a"]
    taken = await client.apply(TEAM, CONFIG_MAPS, other, field_manager="second", force=True)
    assert taken["data"] == {"a": "z"}
    emptied = {key: value for key, value in other.items() if key != "data"}
    assert "data" not in await client.apply(TEAM, CONFIG_MAPS, emptied, field_manager="second")


async def test_clusters_do_not_see_each_other(registry: Registry) -> None:
    """An object is found in its own cluster and over all clusters, nowhere else."""
    client = registry.client
    await client.create(TEAM, CONFIG_MAPS, config_map("one"))
    await client.create(OTHER, CONFIG_MAPS, config_map("two"))
    assert [one["metadata"]["name"] for one in (await client.list(TEAM, CONFIG_MAPS)).items] == ["one"]
    assert [one["metadata"]["clusterName"] for one in (await client.list(WILDCARD, CONFIG_MAPS)).items] == ["team-a", "team-b"]
    with pytest.raises(StatusError) as caught:
        await client.get(OTHER, CONFIG_MAPS, "default", "one")
    assert caught.value.code == 404


async def test_delete_checks_its_preconditions(registry: Registry) -> None:
    """A uid of another object refuses the deletion."""
    made = await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    with pytest.raises(StatusError) as caught:
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "one", uid="other")
    assert caught.value.code == 409
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "one", uid=made["metadata"]["uid"])


async def test_a_watch_goes_on_where_a_list_ended(registry: Registry) -> None:
    """Changes after the list come in order, over all clusters."""
    client = registry.client
    await client.create(TEAM, CONFIG_MAPS, config_map("one"))
    listed = await client.list(WILDCARD, CONFIG_MAPS)
    made = await client.create(OTHER, CONFIG_MAPS, config_map("two"))
    await client.update(OTHER, CONFIG_MAPS, {**made, "data": {"x": "y"}})
    await client.delete(TEAM, CONFIG_MAPS, "default", "one")
    events = client.watch(WILDCARD, CONFIG_MAPS, resource_version=listed.resource_version)
    seen = [await anext(events) for _ in range(3)]
    await events.aclose()
    assert [(event.type, event.obj["metadata"]["name"]) for event in seen] == [("ADDED", "two"), ("MODIFIED", "two"), ("DELETED", "one")]


async def test_a_watch_of_one_cluster_belongs_to_its_life(registry: Registry) -> None:
    """It ends with the cluster; a revision from before the cluster's beginning is refused."""
    client = registry.client
    before = (await client.create(OTHER, CONFIG_MAPS, config_map("one")))["metadata"]["resourceVersion"]
    made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
    events = client.watch(TEAM, CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"])
    await client.create(TEAM, CONFIG_MAPS, config_map("two"))
    assert (await anext(events)).obj["metadata"]["name"] == "two"
    key = registry.clusters.key(TEAM)
    ended = asyncio.ensure_future(anext(events, None))
    await registry.fanout.reached(await registry.storage.transact([], [Delete(key)]))
    registry.fanout.end_watches(cluster=TEAM)
    assert await ended is None
    await client.create(TEAM, CONFIG_MAPS, config_map("three"))
    with pytest.raises(StatusError) as refused:
        await anext(client.watch(TEAM, CONFIG_MAPS, resource_version=before))
    assert refused.value.code == 410
