"""The garbage collector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import ApiResource, Client, LocalClient, LocalTap, ObjectChange, ObjectFilter, Tap
from kcp_py.controllers import start_controllers
from kcp_py.controllers.garbage import GarbageCollector
from kcp_py.controllers.garbage.graphs import Graphs
from kcp_py.controllers.garbage.owners import OwnerLookup, UnresolvedOwnerError
from kcp_py.controllers.garbage.ownership import Item, Reference
from kcp_py.controllers.runtime.loop import ReconcileLoop
from kcp_py.controllers.runtime.queue import WorkQueue
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.opening import open_storage
from tests.client.registry import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    ROOT,
    WIDGETS,
    Registry,
    config_map,
    make_crd,
    namespace,
    open_registry,
    widget,
)
from tests.controllers.garbage.dependents import add, exists, owners_of, reference, settle

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
OTHER = Name("team-b")
EVENTS = GroupVersionResource("", "v1", "events")


async def test_dependents_go_with_their_last_owner(registry: Registry) -> None:
    """What has lost its only owner goes, with all that follows; what has another owner stays and forgets the one that is gone."""
    first, second = await add(registry, TEAM, "first"), await add(registry, TEAM, "second")
    child = await add(registry, TEAM, "child", reference(first))
    await add(registry, TEAM, "grandchild", reference(child))
    await add(registry, TEAM, "shared", reference(first), reference(second))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "first")
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "grandchild")
    assert not await exists(registry, TEAM, "child")

    async def forgotten() -> bool:
        return await owners_of(registry, TEAM, "shared") == ["second"]

    await registry.until(forgotten)


async def test_an_owner_that_waits_goes_after_what_blocks_it(registry: Registry) -> None:
    """Foreground deletion removes dependents first; one that waits for a finalizer holds the owner, unless it does not block."""
    owner = await add(registry, TEAM, "owner")
    await add(registry, TEAM, "held", reference(owner, blocks=True), finalizers=["example.com/hold"])
    await add(registry, TEAM, "free", reference(owner, blocks=True))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner", propagation="Foreground")
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "free")
    found = await registry.client.get(TEAM, CONFIG_MAPS, "default", "owner")
    assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
    held = await registry.client.get(TEAM, CONFIG_MAPS, "default", "held")
    held["metadata"].pop("finalizers")
    await registry.client.update(TEAM, CONFIG_MAPS, held)
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "owner")


async def test_dependents_are_let_go(registry: Registry) -> None:
    """Orphaned dependents stay, without the owner."""
    owner = await add(registry, TEAM, "owner")
    other = await add(registry, TEAM, "other")
    await add(registry, TEAM, "one", reference(owner, blocks=True))
    await add(registry, TEAM, "two", reference(owner), reference(other))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner", propagation="Orphan")
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "owner")
    assert await owners_of(registry, TEAM, "one") == []
    assert await owners_of(registry, TEAM, "two") == ["other"]


async def test_an_object_whose_owner_never_was_goes(registry: Registry) -> None:
    """A missing owner, or another object of the same name, does not own."""
    present = await add(registry, TEAM, "present")
    absent = {**reference(present), "name": "absent"}
    other = {**reference(present), "uid": "11111111-1111-4111-8111-111111111111"}
    await add(registry, TEAM, "without", absent)
    await add(registry, TEAM, "mistaken", other)
    await add(registry, TEAM, "kept", reference(present), other)
    for name in ("without", "mistaken"):
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", name)

    async def forgotten() -> bool:
        return await owners_of(registry, TEAM, "kept") == ["present"]

    await registry.until(forgotten)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("blocks", [True, None])
async def test_a_cycle_goes_as_a_whole(registry: Registry, propagation: str, blocks: bool | None) -> None:  # noqa: FBT001 - a case
    """Three objects that own each other go when one of them is deleted."""
    names = ("a", "b", "c")
    made = {name: await add(registry, TEAM, name, finalizers=["example.com/wait"]) for name in names}
    for name, owner in zip(names, ("c", "a", "b"), strict=True):
        obj = await registry.client.get(TEAM, CONFIG_MAPS, "default", name)
        obj["metadata"] = {**obj["metadata"], "ownerReferences": [reference(made[owner], blocks=blocks)], "finalizers": []}
        await registry.client.update(TEAM, CONFIG_MAPS, obj)
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "a", propagation=propagation)
    for name in names:
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", name)


async def test_a_cycle_of_objects_that_wait_for_each_other_goes(registry: Registry) -> None:
    """Two objects that block each other go, though both were deleted in the foreground."""
    one = await add(registry, TEAM, "one", finalizers=["example.com/wait"])
    await add(registry, TEAM, "two", reference(one, blocks=True), finalizers=["example.com/wait"])
    two = await registry.client.get(TEAM, CONFIG_MAPS, "default", "two")
    one["metadata"]["ownerReferences"] = [reference(two, blocks=True)]
    await registry.client.update(TEAM, CONFIG_MAPS, one)
    for name in ("one", "two"):
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", name, propagation="Foreground")
    for name in ("one", "two"):

        async def released(name: str = name) -> bool:
            held = await registry.client.get(TEAM, CONFIG_MAPS, "default", name)
            held["metadata"]["finalizers"] = [one for one in held["metadata"]["finalizers"] if "/" not in one]
            try:
                await registry.client.update(TEAM, CONFIG_MAPS, held)
            except StatusError as error:
                if error.reason != "Conflict":
                    raise
                return False
            return True

        await registry.until(released)
    for name in ("one", "two"):
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", name)


async def test_an_owner_in_another_namespace_is_none(registry: Registry) -> None:
    """A dependent does not find its owner in another namespace: it goes, and an event says why."""
    await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
    owner = await add(registry, TEAM, "owner")
    child = await registry.client.create(TEAM, CONFIG_MAPS, config_map("child", "shop", ownerReferences=[reference(owner)]))
    await registry.until_gone(TEAM, CONFIG_MAPS, "shop", "child")
    (event,) = (await registry.client.list(TEAM, EVENTS, "shop")).items
    uid = owner["metadata"]["uid"]
    assert event["reason"] == "OwnerRefInvalidNamespace"
    assert event["type"] == "Warning"
    assert event["message"] == (f'ownerRef [v1/ConfigMap, namespace: shop, name: owner, uid: {uid}] does not exist in namespace "shop"')
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "shop",
        "name": "child",
        "uid": child["metadata"]["uid"],
    }
    assert await exists(registry, TEAM, "owner")


async def test_a_cluster_scoped_object_with_a_namespaced_owner_stays(registry: Registry) -> None:
    """It cannot have such an owner, so the owner is unknown: it is left alone, before and after the owner goes."""
    owner = await add(registry, TEAM, "owner")
    held = {**namespace("shop"), "metadata": {"name": "shop", "ownerReferences": [reference(owner)]}}
    await registry.client.create(TEAM, NAMESPACES, held)
    await registry.until(lambda: _has_event(registry, "default"))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
    await settle(registry, TEAM)
    assert await exists(registry, TEAM, "shop", "", NAMESPACES)


async def _has_event(registry: Registry, namespace: str) -> bool:
    events = (await registry.client.list(TEAM, EVENTS, namespace)).items
    return any(event["reason"] == "OwnerRefInvalidNamespace" for event in events)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_cluster_scoped_owners(registry: Registry, propagation: str) -> None:
    """A namespace owns objects in other namespaces and cluster-scoped ones; so does a default namespace."""
    owner = await registry.client.create(TEAM, NAMESPACES, namespace("owner"))
    default = await registry.client.get(TEAM, NAMESPACES, "", "default")
    await add(registry, TEAM, "inside", reference(owner, blocks=True))
    await add(registry, TEAM, "kept", reference(default))
    child = {**namespace("child"), "metadata": {"name": "child", "ownerReferences": [reference(owner, blocks=True)]}}
    await registry.client.create(TEAM, NAMESPACES, child)
    await registry.client.delete(TEAM, NAMESPACES, "", "owner", propagation=propagation)
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "inside")
    await registry.until_gone(TEAM, NAMESPACES, "", "child")
    await registry.until_gone(TEAM, NAMESPACES, "", "owner")
    await settle(registry, TEAM)
    assert await exists(registry, TEAM, "kept")


async def test_custom_resources_and_their_definitions_are_owners_and_dependents(registry: Registry) -> None:
    """Deleting a definition takes what its objects own along, though their kind is gone with it; definitions can be owned as well."""
    client = registry.client
    await client.create(TEAM, CRDS, make_crd())
    crd = await registry.until_condition(TEAM, "widgets.example.com", "Established")
    other = make_crd("gears", kind="Gear")
    other["metadata"]["ownerReferences"] = [reference(crd)]
    await client.create(TEAM, CRDS, other)
    owner = await client.create(TEAM, WIDGETS, widget("owner"))
    await client.create(TEAM, WIDGETS, widget("child", ownerReferences=[reference(owner, blocks=True)]))
    await add(registry, TEAM, "config", reference(owner))
    await client.delete(TEAM, WIDGETS, "default", "owner", propagation="Foreground")
    await registry.until_gone(TEAM, WIDGETS, "default", "child")
    await registry.until_gone(TEAM, WIDGETS, "default", "owner")
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "config")
    second = await client.create(TEAM, WIDGETS, widget("second"))
    await add(registry, TEAM, "config", reference(second))
    await client.delete(TEAM, CRDS, "", "widgets.example.com")
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "config")
    await registry.until_gone(TEAM, CRDS, "", "gears.example.com")


async def test_an_owner_of_an_unknown_kind_is_waited_for(registry: Registry) -> None:
    """Nothing is deleted for an owner whose kind is not served; once it is, the owner is looked for."""
    owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "11111111-1111-4111-8111-111111111111"}
    await add(registry, TEAM, "child", owner)
    await settle(registry, TEAM)
    assert await exists(registry, TEAM, "child")
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")


async def test_other_clusters_are_not_touched(registry: Registry) -> None:
    """An owner that goes in one cluster is the owner of nothing in another, whatever references say there."""
    owner = await add(registry, TEAM, "owner")
    await add(registry, TEAM, "child", reference(owner))
    stored = await registry.storage.get(f"{ROOT}/core/configmaps/team-a/default/owner")
    assert stored is not None
    for name in ("owner", "child"):
        key = f"{ROOT}/core/configmaps/team-a/default/{name}"
        item = await registry.storage.get(key)
        assert item is not None
        await registry.storage.transact((), (Put(key.replace("team-a", "team-b"), item.value),))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
    await settle(registry, OTHER)
    assert await exists(registry, OTHER, "child")
    await registry.client.delete(OTHER, CONFIG_MAPS, "default", "owner")
    await registry.until_gone(OTHER, CONFIG_MAPS, "default", "child")


async def test_nothing_is_collected_where_the_collector_is_off() -> None:
    """Without the collector, dependents stay and the finalizers of deletions that wait for it as well."""
    async with open_registry(MemoryStorage()) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap, ("*", "-garbage-collector-controller"))
        await add(registry, TEAM, "child", reference(await add(registry, TEAM, "gone")))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "gone")
        await add(registry, TEAM, "waits")
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "waits", propagation="Foreground")
        # The namespace controller has done its work after all that, and no other controller any.
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        await registry.client.delete(TEAM, NAMESPACES, "", "shop")
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")
        assert await exists(registry, TEAM, "child")
        assert await exists(registry, TEAM, "waits")


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_a_restart_goes_on(tmp_path: Path, propagation: str) -> None:
    """Work that was not finished when the server stopped, at any point, is finished by the next one."""
    children = 40
    path = tmp_path / "store.db"
    async with open_registry(open_storage("sqlite", path=path)) as registry:
        owner = await add(registry, TEAM, "owner")
        for number in range(children):
            await add(registry, TEAM, f"child-{number}", reference(owner, blocks=True))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner", propagation=propagation)
    async with open_registry(open_storage("sqlite", path=path)) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap)

        async def begun() -> bool:
            if propagation == "Orphan":
                return await owners_of(registry, TEAM, "child-0") == []
            return not await exists(registry, TEAM, "child-0")

        await registry.until(begun)
    async with open_registry(open_storage("sqlite", path=path)) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap)
        if propagation != "Orphan":
            for number in range(children):
                await registry.until_gone(TEAM, CONFIG_MAPS, "default", f"child-{number}")
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "owner")
        if propagation == "Orphan":
            assert [await owners_of(registry, TEAM, f"child-{number}") for number in range(children)] == [[]] * children


async def test_graphs_that_were_thrown_away_are_missed_by_nobody() -> None:
    """With room for one cluster's graph only, the work of two clusters is still done."""
    async with open_registry(MemoryStorage()) as registry:
        queue = WorkQueue(per_cluster=4)
        graphs = Graphs(most_clusters=1)
        collector = GarbageCollector(registry.client, registry.tap, queue, now=lambda: "2026-01-01T00:00:00Z", graphs=graphs)
        loop = ReconcileLoop(registry.tap, collector, collector.follow, queue=queue)
        registry.supervisor.start("garbage", loop.run)
        for round_ in range(4):
            for cluster in (TEAM, OTHER):
                owner = await add(registry, cluster, f"owner-{round_}")
                await add(registry, cluster, f"child-{round_}", reference(owner, blocks=True))
                await registry.client.delete(
                    cluster, CONFIG_MAPS, "default", f"owner-{round_}", propagation="Foreground" if round_ % 2 else "Background"
                )
            for cluster in (TEAM, OTHER):
                await registry.until_gone(cluster, CONFIG_MAPS, "default", f"child-{round_}")
                await registry.until_gone(cluster, CONFIG_MAPS, "default", f"owner-{round_}")
            if round_ == 1:
                graphs.sweep()
                graphs.sweep()


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_two_collectors_do_no_more_than_one(registry: Registry, propagation: str) -> None:
    """Every server on a store has one: what both begin is done once."""
    start_controllers(registry.supervisor, registry.client, registry.tap, ("garbage-collector-controller",))
    owner, other = await add(registry, TEAM, "owner"), await add(registry, TEAM, "other")
    for number in range(30):
        await add(registry, TEAM, f"child-{number}", reference(owner, blocks=True))
        await add(registry, TEAM, f"shared-{number}", reference(owner, blocks=True), reference(other))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner", propagation=propagation)
    await registry.until_gone(TEAM, CONFIG_MAPS, "default", "owner")
    for number in range(30):
        if propagation != "Orphan":
            await registry.until_gone(TEAM, CONFIG_MAPS, "default", f"child-{number}")

        async def forgotten(name: str = f"shared-{number}") -> bool:
            return await owners_of(registry, TEAM, name) == ["other"]

        await registry.until(forgotten)
    assert [await exists(registry, TEAM, f"child-{number}") for number in range(30)] == [propagation == "Orphan"] * 30


class Deaf:
    """A tap whose observers see nothing."""

    def __init__(self, tap: LocalTap) -> None:
        self._tap = tap
        self.missed: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tap, name)

    def observe(
        self, observer: Callable[[ObjectChange], None], *, concerned: ObjectFilter, missed: Callable[[], None]
    ) -> Callable[[], None]:
        del observer, concerned
        self.missed = missed
        return lambda: None


async def test_what_happened_unseen_is_made_up_for() -> None:
    """Where changes were missed, every object is looked at again."""
    async with open_registry(MemoryStorage()) as registry:
        queue = WorkQueue()
        tap = Deaf(registry.tap)
        collector = GarbageCollector(registry.client, cast("Tap", tap), queue, now=lambda: "2026-01-01T00:00:00Z")
        loop = ReconcileLoop(cast("Tap", tap), collector, collector.follow, queue=queue)
        await add(registry, TEAM, "first", reference(await add(registry, TEAM, "owner"), blocks=True))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
        registry.supervisor.start("garbage", loop.run)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "first")
        await add(registry, TEAM, "second", reference(await add(registry, TEAM, "owner"), blocks=True))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
        tap.missed()
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "second")


async def test_an_owner_whose_kind_is_not_served_any_more_is_not_absent() -> None:
    """A client over HTTP may remember a kind for some seconds: the dependent stays, as nothing is known about its owner."""
    async with open_registry(MemoryStorage()) as registry:
        owners = OwnerLookup(cast("Client", Remembering(registry.client)), registry.tap)
        item = Item(CONFIG_MAPS.group_resource, "default", "dependent")
        with pytest.raises(UnresolvedOwnerError):
            await owners.classify(TEAM, item, [Reference("example.com/v1", "Widget", "w", "u1", blocks=False)])


class Remembering:
    """A client that finds a kind which the cluster does not serve any more."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> ApiResource:
        del cluster, api_version
        return ApiResource(WIDGETS, kind, namespaced=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
