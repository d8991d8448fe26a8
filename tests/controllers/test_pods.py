"""Of very many pods that have ended, the oldest are deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.controllers import ControllerSettings, start_controllers
from kcp_py.controllers.pods import PODS, PodGarbageCollector
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


async def test_all_pods_can_be_kept(tmp_path: Path) -> None:
    """With a threshold of 0 nothing runs; with one the controller has upstream's alias."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        settings = ControllerSettings(terminated_pods=0)
        assert start_controllers(plane.supervisor, plane.client, plane.tap, ("podgc",), settings=settings) == []
        (loop,) = start_controllers(plane.supervisor, plane.client, plane.tap, ("podgc",))
        assert loop.name == "pod-garbage-collector-controller"
