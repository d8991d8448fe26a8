"""Of very many pods that have ended, the oldest are deleted, and so are the pods of nodes that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kcp_py.client import ObjectChange
from kcp_py.controllers import start_controllers
from kcp_py.controllers.pods import NODES, PODS, PodGarbageCollector
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.loop import ReconcileLoop, changes_of
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio


async def create(plane: Plane, name: str, phase: str, *, cluster: Name = TEAM, **status: Any) -> None:
    """A pod in a phase, on a node that does not exist."""
    client = plane.control_plane.client
    spec = {"nodeName": "gone", "containers": [{"name": "c", "image": "i"}]}
    made = await client.create(cluster, PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await client.update(cluster, PODS, {**made, "status": {**made["status"], "phase": phase, **status}}, subresource="status")


@pytest.mark.parametrize("way", WAYS)
async def test_pods_beyond_the_threshold_are_deleted(way: str, tmp_path: Path) -> None:
    """Those that existed and those that end later. Each cluster has a threshold of its own."""
    async with open_plane(way, tmp_path, "pods") as plane:
        await create(plane, "a", "Succeeded")
        await create(plane, "other", "Failed", cluster=OTHER)
        collector = PodGarbageCollector(plane.client, threshold=1, period=0.001)
        loop = ReconcileLoop(plane.tap, collector, changes_of(plane.tap, collector))
        plane.supervisor.start("pods", loop.run)
        for name in ("b", "c"):
            await create(plane, name, "Failed")
        await create(plane, "running", "Running")

        async def one_remains() -> bool:
            names = await plane.names(TEAM, PODS)
            return len(names) == 2 and "running" in names

        await plane.until(one_remains)
        assert await plane.names(OTHER, PODS) == {"other"}


async def test_evicted_pods_go_first(tmp_path: Path) -> None:
    """Then the oldest, and of one second by their names. Pods that run and pods without a node stay."""
    async with open_plane(WAYS[0], tmp_path, "pods") as plane:
        for name in ("a", "b"):
            await create(plane, name, "Succeeded")
        await create(plane, "evicted", "Failed", reason="Evicted")
        for phase in ("Running", "Pending", "Unknown"):
            await create(plane, phase.lower(), phase)
        alive = {"running", "pending", "unknown"}
        key = Key(TEAM, "", "")
        await PodGarbageCollector(plane.client, threshold=3).reconcile(key)
        assert await plane.names(TEAM, PODS) == {"a", "b", "evicted", *alive}
        await PodGarbageCollector(plane.client, threshold=2).reconcile(key)
        assert await plane.names(TEAM, PODS) == {"a", "b", *alive}
        await PodGarbageCollector(plane.client, threshold=1).reconcile(key)
        assert await plane.names(TEAM, PODS) == {"b", *alive}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


async def bind(plane: Plane, name: str, node_name: str, *, cluster: Name = TEAM, **metadata: Any) -> dict[str, Any]:
    """A pod that runs on a node."""
    spec = {"nodeName": node_name, "containers": [{"name": "c", "image": "i"}]}
    made = await plane.control_plane.client.create(
        cluster, PODS, {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec}
    )
    running = {**made, "status": {**made["status"], "phase": "Running"}}
    return await plane.control_plane.client.update(cluster, PODS, running, subresource="status")


@pytest.mark.parametrize("way", WAYS)
async def test_pods_of_a_deleted_node_are_deleted(way: str, tmp_path: Path) -> None:
    """Those of other nodes and of other clusters stay, and so do those of a node that comes back in time."""
    async with open_plane(way, tmp_path, "pods", "nodes") as plane:
        client = plane.control_plane.client
        for cluster in (TEAM, OTHER):
            await client.create(cluster, NODES, node("one"))
            await bind(plane, "a", "one", cluster=cluster)
        await client.create(TEAM, NODES, node("two"))
        await bind(plane, "b", "two")
        collector = PodGarbageCollector(plane.client, threshold=0, period=0.001, quarantine=0.001)
        loop = ReconcileLoop(plane.tap, collector, changes_of(plane.tap, collector))
        plane.supervisor.start("pods", loop.run)
        await client.delete(TEAM, NODES, "", "one")

        async def one_remains() -> bool:
            return await plane.names(TEAM, PODS) == {"b"}

        await plane.until(one_remains)
        assert await plane.names(OTHER, PODS) == {"a"}


async def test_pods_of_a_missing_node_have_failed(tmp_path: Path) -> None:
    """After the time of quarantine, and as kube-controller-manager writes it. Finalizers see it."""
    async with open_plane(WAYS[0], tmp_path, "pods", "nodes") as plane:
        now = 1_700_000_000.0
        client = plane.control_plane.client
        await client.create(TEAM, NODES, node("other"))
        await bind(plane, "held", "gone", finalizers=["example.com/hold"])
        await bind(plane, "free", "gone")
        await create(plane, "ended", "Succeeded")
        collector = PodGarbageCollector(plane.client, threshold=0, clock=lambda: now)
        key = Key(TEAM, "", "gone")
        assert await collector.reconcile(key) == Later(40)
        now += 15
        assert await collector.reconcile(key) == Later(25)
        assert await plane.names(TEAM, PODS) == {"held", "free", "ended"}
        now += 25
        assert await collector.reconcile(key) == 0
        assert await plane.names(TEAM, PODS) == {"held"}
        held = await plane.find(TEAM, PODS, "held")
        assert held is not None
        assert "deletionTimestamp" in held["metadata"]
        assert (held["status"]["phase"], held["status"]["observedGeneration"]) == ("Failed", 1)
        assert held["status"]["conditions"] == [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastProbeTime": None,
                "lastTransitionTime": "2023-11-14T22:14:00Z",
                "observedGeneration": 1,
            }
        ]


async def test_many_nodes_need_one_look(tmp_path: Path) -> None:
    """At the pods of their cluster. A node that has come back, a later pod and a later absence are not lost."""
    async with open_plane(WAYS[0], tmp_path, "pods", "nodes") as plane:
        now = 1_700_000_000.0
        client = plane.control_plane.client
        await client.create(TEAM, NODES, node("other"))
        names = [f"n{number}" for number in range(5)]
        for name in names:
            await bind(plane, name, name)
        collector = PodGarbageCollector(plane.client, threshold=0, clock=lambda: now)
        for name in names:
            assert await collector.reconcile(Key(TEAM, "", name)) == Later(40)
        now += 40
        await client.create(TEAM, NODES, node("n4"))
        assert await collector.reconcile(Key(TEAM, "", "n0")) == 0
        assert await plane.names(TEAM, PODS) == {"n4"}
        await bind(plane, "late", "n1")
        value = b'{"spec":{"nodeName":"n1"}}'
        assert list(collector.keys(ObjectChange(TEAM, PODS.group_resource, "default", "late", value, None))) == [Key(TEAM, "", "n1")]
        answers = [await collector.reconcile(Key(TEAM, "", name)) for name in names]
        assert answers == [Later(40), Later(40), 0, 0, 0]


async def test_a_node_that_comes_back_keeps_its_pods(tmp_path: Path) -> None:
    """Its next absence has a time of its own."""
    async with open_plane(WAYS[0], tmp_path, "pods", "nodes") as plane:
        now = 1_700_000_000.0
        client = plane.control_plane.client
        await client.create(TEAM, NODES, node("other"))
        await bind(plane, "a", "one")
        collector = PodGarbageCollector(plane.client, threshold=0, clock=lambda: now)
        key = Key(TEAM, "", "one")
        assert await collector.reconcile(key) == Later(40)
        await client.create(TEAM, NODES, node("one"))
        now += 40
        assert await collector.reconcile(key) == 0
        await client.delete(TEAM, NODES, "", "one")
        assert await collector.reconcile(key) == Later(40)


@pytest.mark.parametrize("kinds", [("pods",), ("pods", "nodes")], ids=["not served", "none exist"])
async def test_clusters_without_nodes_keep_their_pods(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever node they name."""
    async with open_plane(WAYS[0], tmp_path, *kinds) as plane:
        await bind(plane, "a", "one")
        assert await PodGarbageCollector(plane.client, threshold=0).reconcile(Key(TEAM, "", "one")) == 0


def test_nodes_are_looked_at_when_pods_get_them() -> None:
    """Later changes of a pod, and objects of another schema, ask for nothing."""
    collector = PodGarbageCollector(cast("Any", None), threshold=0)

    def keys(value: bytes | None, previous: bytes | None = None) -> list[Key]:
        return list(collector.keys(ObjectChange(TEAM, PODS.group_resource, "default", "a", value, previous)))

    bound = b'{"spec":{"nodeName":"one"},"status":{"phase":"Failed"}}'
    assert keys(bound) == keys(bound, b'{"spec":{}}') == [Key(TEAM, "", "one")]
    assert keys(bound, bound) == keys(None, bound) == keys(b'{"spec":{}}') == []
    assert keys(b'{"spec":{"nodeName":["one"]}}') == keys(b'{"spec":["nodeName"]}') == keys(b'{"spec":{"nodeName":""}}') == []


async def test_all_pods_can_be_kept(tmp_path: Path) -> None:
    """With a threshold of 0 none is looked at. The controller has upstream's alias."""
    ended = ObjectChange(TEAM, PODS.group_resource, "default", "a", b'{"status":{"phase":"Failed"}}', None)
    assert list(PodGarbageCollector(cast("Any", None), threshold=0).keys(ended)) == []
    assert list(PodGarbageCollector(cast("Any", None), threshold=1).keys(ended)) == [Key(TEAM, "", "")]
    async with open_plane(WAYS[0], tmp_path) as plane:
        (loop,) = start_controllers(plane.supervisor, plane.client, plane.tap, ("podgc",))
        assert loop.name == "pod-garbage-collector-controller"
