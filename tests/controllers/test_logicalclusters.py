"""The controller of LogicalClusters."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.timestamps import format_time, parse_time
from kcp_py.apis.kcp.logicalclusters import delete_after
from kcp_py.controllers import start_controllers
from kcp_py.controllers.logicalclusters import LONGEST_WAIT_SECONDS, LogicalClusterController
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import (
    CONFIG_MAPS,
    CRDS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    WIDGETS,
    Registry,
    config_map,
    make_crd,
    namespace,
    open_registry,
    widget,
)

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
OTHER = Name("team-b")


async def fill(registry: Registry, cluster: Name, **metadata: Any) -> dict[str, Any]:
    """A cluster with a CRD, a namespace and objects; `metadata` goes to one config map and one custom resource. Returns its object."""
    client = registry.client
    await client.create(cluster, CRDS, make_crd())
    await registry.until_condition(cluster, "widgets.example.com", "Established")
    await client.create(cluster, NAMESPACES, namespace("shop"))
    await client.create(cluster, CONFIG_MAPS, config_map("plain"))
    await client.create(cluster, CONFIG_MAPS, config_map("special", "shop", **metadata))
    await client.create(cluster, WIDGETS, widget("special", "shop", **metadata))
    return await client.get(cluster, LOGICAL_CLUSTERS, "", "cluster")


async def delete(registry: Registry, cluster: Name) -> None:
    await registry.client.delete(cluster, LOGICAL_CLUSTERS, "", "cluster")


async def gone(registry: Registry, cluster: Name, uid: str) -> None:
    await registry.until_gone(cluster, LOGICAL_CLUSTERS, "", "cluster", uid)


async def test_deletion_leaves_no_key(registry: Registry) -> None:
    """Everything in a deleted cluster goes, and nothing of another."""
    obj = await fill(registry, TEAM)
    await fill(registry, OTHER)
    others = await registry.keys("team-b")
    await delete(registry, TEAM)
    await gone(registry, TEAM, obj["metadata"]["uid"])
    assert await registry.keys("team-a") == []
    assert await registry.keys("team-b") == others


async def test_a_cluster_made_again_is_a_new_one(registry: Registry) -> None:
    """Under the same name begins a cluster with another uid that holds nothing of the old one."""
    obj = await fill(registry, TEAM)
    await delete(registry, TEAM)
    await gone(registry, TEAM, obj["metadata"]["uid"])
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("new"))
    again = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    assert again["metadata"]["uid"] != obj["metadata"]["uid"]
    assert "deletionTimestamp" not in again["metadata"]
    assert [one["metadata"]["name"] for one in (await registry.client.list(TEAM, CONFIG_MAPS)).items] == ["new"]
    assert (await registry.client.list(TEAM, CRDS)).items == []
    names = [one["metadata"]["name"] for one in (await registry.client.list(TEAM, NAMESPACES)).items]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


async def test_deletion_waits_for_finalizers(registry: Registry) -> None:
    """Objects with finalizers are marked, stay readable, and are waited for; the cluster says so, and takes nothing new."""
    obj = await fill(registry, TEAM, finalizers=["example.com/hold"])
    await delete(registry, TEAM)

    async def reported() -> bool:
        found = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
        return bool(found["status"].get("conditions"))

    await registry.until(reported)
    found = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    assert found["status"]["phase"] == "Deleting"
    assert found["metadata"]["labels"]["tenancy.kcp.io/phase"] == "Deleting"
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("WorkspaceContentDeleted", "False", "SomeFinalizersRemain")
    assert "example.com/hold in 2 resource instances" in condition["message"]
    for resource in (CONFIG_MAPS, WIDGETS):
        (held,) = (await registry.client.list(TEAM, resource)).items
        assert held["metadata"]["deletionTimestamp"]
    for resource, late in ((CONFIG_MAPS, config_map("late")), (NAMESPACES, namespace("late")), (WIDGETS, widget("late"))):
        with pytest.raises(StatusError) as caught:
            await registry.client.create(TEAM, resource, late)
        assert caught.value.code == 403
        assert "unable to create new content in logical cluster team-a because it is being terminated" in caught.value.message
    for resource in (CONFIG_MAPS, WIDGETS):
        (held,) = (await registry.client.list(TEAM, resource)).items
        del held["metadata"]["finalizers"]
        await registry.client.update(TEAM, resource, held)
    await gone(registry, TEAM, obj["metadata"]["uid"])
    assert await registry.keys("team-a") == []


async def test_default_namespaces_are_not_made_anew_while_a_cluster_ends(registry: Registry) -> None:
    """In a terminating cluster no change of a namespace that was never stored can bring a key into being."""
    obj = await fill(registry, TEAM, finalizers=["example.com/hold"])
    await delete(registry, TEAM)
    default = await registry.client.get(TEAM, NAMESPACES, "", "default")
    default["metadata"]["labels"]["a"] = "b"
    with pytest.raises(StatusError) as caught:
        await registry.client.update(TEAM, NAMESPACES, default)
    assert caught.value.code == 403
    with pytest.raises(StatusError) as caught:
        await registry.client.delete(TEAM, NAMESPACES, "", "kube-node-lease")
    assert caught.value.code == 403
    assert obj["metadata"]["uid"]


async def test_stored_default_namespaces_go_with_their_cluster(registry: Registry) -> None:
    """Default namespaces that are stored because they were labelled are deleted with the cluster."""
    obj = await fill(registry, TEAM)
    default = await registry.client.get(TEAM, NAMESPACES, "", "default")
    default["metadata"]["labels"]["a"] = "b"
    await registry.client.update(TEAM, NAMESPACES, default)
    with pytest.raises(StatusError) as caught:
        await registry.client.delete(TEAM, NAMESPACES, "", "default")
    assert caught.value.code == 403
    await delete(registry, TEAM)
    await gone(registry, TEAM, obj["metadata"]["uid"])
    assert await registry.keys("team-a") == []


async def test_the_deletion_finalizer_cannot_be_taken_away(registry: Registry) -> None:
    """An update of the LogicalCluster that drops its finalizer does not let the object go before its content."""
    obj = await fill(registry, TEAM)
    del obj["metadata"]["finalizers"]
    updated = await registry.client.update(TEAM, LOGICAL_CLUSTERS, obj)
    assert updated["metadata"]["finalizers"] == ["core.kcp.io/logicalcluster-deletion"]
    await delete(registry, TEAM)
    await gone(registry, TEAM, obj["metadata"]["uid"])
    assert await registry.keys("team-a") == []


async def test_finalizers_of_others_hold_the_empty_cluster(registry: Registry) -> None:
    """With another finalizer the object stays when the content is gone, and says that it is."""
    obj = await fill(registry, TEAM)
    obj["metadata"]["finalizers"].append("example.com/hold")
    await registry.client.update(TEAM, LOGICAL_CLUSTERS, obj)
    await delete(registry, TEAM)

    async def emptied() -> bool:
        found = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
        return bool(found["metadata"]["finalizers"] == ["example.com/hold"])

    await registry.until(emptied)
    found = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    assert [(one["type"], one["status"]) for one in found["status"]["conditions"]] == [("WorkspaceContentDeleted", "True")]
    assert len(await registry.keys("team-a")) == 1
    del found["metadata"]["finalizers"]
    await registry.client.update(TEAM, LOGICAL_CLUSTERS, found)
    await gone(registry, TEAM, obj["metadata"]["uid"])


async def test_many_clusters_go_together(registry: Registry) -> None:
    """Clusters with more objects than are deleted at once leave nothing either, and wildcard readers see none of it any more."""
    clusters = [Name(f"tenant-{number}") for number in range(5)]
    for cluster in clusters:
        for number in range(250):
            await registry.client.create(cluster, CONFIG_MAPS, config_map(f"map-{number}"))
    for cluster in clusters:
        await delete(registry, cluster)
    for cluster in clusters:
        await registry.until_gone(cluster, LOGICAL_CLUSTERS, "", "cluster")
    assert (await registry.client.list(WILDCARD, CONFIG_MAPS)).items == []
    assert (await registry.client.list(WILDCARD, LOGICAL_CLUSTERS)).items == []


async def test_a_restart_goes_on_with_the_deletion() -> None:
    """A cluster that was being deleted when the server stopped is emptied by the next one."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await registry.client.create(OTHER, CONFIG_MAPS, config_map("one"))
        await delete(registry, TEAM)
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap)
        await registry.until_gone(TEAM, LOGICAL_CLUSTERS, "", "cluster")
        assert await registry.keys("team-a") == []
        assert len(await registry.keys("team-b")) == 2


async def end_of(registry: Registry) -> float:
    """When the cluster is to be deleted."""
    after = delete_after(await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster"))
    assert after is not None
    return parse_time(after)


async def test_the_grace_period_is_waited_for(registry: Registry) -> None:
    """Before its end nothing of the content goes and the clock is looked at again; at its end everything goes."""
    uid = (await fill(registry, TEAM))["metadata"]["uid"]
    await registry.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster", grace=3600)
    keys = await registry.keys("team-a")
    clock = await end_of(registry) - 3600
    controller = LogicalClusterController(registry.client, registry.tap, now=lambda: format_time(clock), monotonic=lambda: clock)
    key = Key(TEAM, "", "cluster")
    assert await controller.reconcile(key) == Later(LONGEST_WAIT_SECONDS)
    clock += 3500
    remaining = await controller.reconcile(key)
    assert isinstance(remaining, Later)
    assert 95 <= remaining.seconds <= 105
    assert await registry.keys("team-a") == keys
    clock += 105
    assert await controller.reconcile(key) == 0
    await gone(registry, TEAM, uid)
    assert await registry.keys("team-a") == []


@pytest.mark.parametrize("seconds", [-86400.0, 86400.0], ids=["back", "forward"])
async def test_a_clock_that_is_set_does_not_change_the_grace_period(registry: Registry, seconds: float) -> None:
    """Set by a day within the grace period, the cluster is deleted when as much time has passed as was asked for, and not before."""
    uid = (await fill(registry, TEAM))["metadata"]["uid"]
    await registry.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster", grace=500)
    keys = await registry.keys("team-a")
    passed = 0.0
    set_by = 0.0
    start = await end_of(registry) - 500
    controller = LogicalClusterController(
        registry.client, registry.tap, now=lambda: format_time(start + passed + set_by), monotonic=lambda: passed
    )
    key = Key(TEAM, "", "cluster")
    assert isinstance(await controller.reconcile(key), Later)
    set_by = seconds
    passed = 490.0
    remaining = await controller.reconcile(key)
    assert isinstance(remaining, Later)
    assert 0 < remaining.seconds <= 15
    assert await registry.keys("team-a") == keys
    passed = 505.0
    assert await controller.reconcile(key) == 0
    await gone(registry, TEAM, uid)


async def test_a_second_deletion_brings_the_end_nearer(registry: Registry) -> None:
    """The controller that knows the first end goes by the second."""
    await fill(registry, TEAM)
    await registry.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster", grace=500)
    controller = LogicalClusterController(registry.client, registry.tap, now=lambda: format_time(time.time()), monotonic=lambda: 0.0)
    key = Key(TEAM, "", "cluster")
    first = await controller.reconcile(key)
    assert isinstance(first, Later)
    await registry.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster", grace=100)
    second = await controller.reconcile(key)
    assert isinstance(second, Later)
    assert second.seconds <= 100 < first.seconds


async def test_an_undelete_wins_over_the_end(registry: Registry) -> None:
    """A cluster that is undeleted between the look at the clock and the deletion is not deleted."""
    await fill(registry, TEAM)
    await registry.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster", grace=3600)
    deleted = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    metadata = {**deleted["metadata"], "annotations": {}}
    await registry.client.update(TEAM, LOGICAL_CLUSTERS, {**deleted, "metadata": metadata})
    controller = LogicalClusterController(registry.client, registry.tap, now=lambda: format_time(time.time() + 7200))
    with pytest.raises(StatusError) as caught:
        await controller._before_deletion(Key(TEAM, "", "cluster"), deleted)
    assert caught.value.reason == "Conflict"
    assert await controller.reconcile(Key(TEAM, "", "cluster")) == 0
    assert "deletionTimestamp" not in (await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster"))["metadata"]


async def test_a_restart_keeps_the_grace_period() -> None:
    """A server that starts before the end keeps the cluster; one that starts after it deletes the cluster."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await registry.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster", grace=3600)
    async with open_registry(storage) as registry:
        (loop,) = start_controllers(registry.supervisor, registry.client, registry.tap, ["logicalclusters"])

        async def waits() -> bool:
            await asyncio.sleep(0)
            return loop.queue.delayed == 1

        async with asyncio.timeout(60):
            while not await waits():
                pass
        assert len(await registry.keys("team-a")) == 2
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap, clock=Clock(time=lambda: time.time() + 7200))
        await registry.until_gone(TEAM, LOGICAL_CLUSTERS, "", "cluster")
        assert await registry.keys("team-a") == []
