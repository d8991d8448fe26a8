"""Workloads become ready after a delay, in every cluster that serves them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controllers import ControllerSettings, start_controllers
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.deadlines import Deadlines
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.simulation import WorkloadSimulator
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import open_registry
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

KINDS = ("deployments.apps", "replicasets.apps", "pods", "services", "jobs.batch")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
PODS = GroupVersionResource("", "v1", "pods")
SERVICES = GroupVersionResource("", "v1", "services")
SIMULATED = ControllerSettings(simulate=("workloads",), simulate_delay=0.001)
SELECTION = ("workload-simulation-controller", "garbage-collector-controller")
NOW = "2026-01-01T00:00:00Z"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def deployment(name: str = "web", replicas: int = 2, image: str = "i:1") -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def rolled_out(plane: Plane, cluster: Name, name: str = "web") -> bool:
    """What `kubectl rollout status` waits for, and that the replica set of the template has all replicas."""
    found = await plane.find(cluster, DEPLOYMENTS, name)
    assert found is not None
    replicas, status = found["spec"]["replicas"], found.get("status") or {}
    if status.get("observedGeneration") != found["metadata"]["generation"] or status.get("updatedReplicas", 0) != replicas:
        return False
    sets = (await plane.control_plane.client.list(cluster, REPLICA_SETS)).items
    ready = {one["spec"]["template"]["spec"]["containers"][0]["image"]: (one.get("status") or {}).get("readyReplicas", 0) for one in sets}
    image = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return ready.pop(image, None) == replicas and set(ready.values()) <= {0}


async def change(plane: Plane, name: str = "web", **fields: Any) -> None:
    await plane.control_plane.client.patch(TEAM, DEPLOYMENTS, "default", name, document={"spec": fields})


@pytest.mark.parametrize("way", WAYS)
async def test_workloads_become_ready(way: str, tmp_path: Path) -> None:
    """Those that exist and those that come, in all clusters; with scales and updates; their replica sets go with them."""
    async with open_plane(way, tmp_path, *KINDS) as plane:
        client = plane.control_plane.client
        await client.create(TEAM, DEPLOYMENTS, deployment())
        start_controllers(plane.supervisor, plane.client, plane.tap, SELECTION, settings=SIMULATED)
        await client.create(OTHER, DEPLOYMENTS, deployment(replicas=3))
        await client.create(OTHER, PODS, pod("one"))
        await client.create(OTHER, SERVICES, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}})
        await plane.until(lambda: rolled_out(plane, TEAM))
        await plane.until(lambda: rolled_out(plane, OTHER))

        async def ready() -> bool:
            one, service = await plane.find(OTHER, PODS, "one"), await plane.find(OTHER, SERVICES, "s")
            assert one is not None
            assert service is not None
            return one["status"]["phase"] == "Running" and bool(service["spec"].get("clusterIP"))

        await plane.until(ready)
        await change(plane, replicas=5)
        await plane.until(lambda: rolled_out(plane, TEAM))
        await change(plane, template=deployment(image="i:2")["spec"]["template"])
        await plane.until(lambda: rolled_out(plane, TEAM))
        await client.delete(TEAM, DEPLOYMENTS, "default", "web")

        async def no_replica_sets() -> bool:
            return not await plane.names(TEAM, REPLICA_SETS)

        await plane.until(no_replica_sets)
        assert len(await plane.names(OTHER, REPLICA_SETS)) == 1


class Simulation:
    """A controller with a clock of its own."""

    def __init__(self, plane: Plane) -> None:
        self.now = 0.0
        self.controller = WorkloadSimulator(plane.client, delay=10, now=lambda: NOW, deadlines=Deadlines(lambda: self.now))

    async def of(self, name: str) -> int | Later:
        return await self.controller.reconcile(Key(TEAM, "default", name))


async def test_a_workload_waits(tmp_path: Path) -> None:
    """For the delay, which begins anew with each specification. Once it is ready nothing is written any more."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        simulation = Simulation(plane)
        client, storage = plane.control_plane.client, plane.control_plane.backend.access.storage
        await client.create(TEAM, PODS, pod("one"))
        assert await simulation.of("pods/one") == Later(10)
        simulation.now = 4
        assert await simulation.of("pods/one") == Later(6)
        await client.patch(TEAM, PODS, "default", "one", document={"spec": {"activeDeadlineSeconds": 100}})
        assert await simulation.of("pods/one") == Later(10)
        simulation.now = 14
        assert await simulation.of("pods/one") == 0
        found = await plane.find(TEAM, PODS, "one")
        assert found is not None
        assert found["status"]["phase"] == "Running"
        revision = await storage.revision()
        simulation.now = 100
        assert await simulation.of("pods/one") == 0
        assert await simulation.of("pods/other") == 0
        assert await storage.revision() == revision


async def test_a_deployment_has_revisions(tmp_path: Path) -> None:
    """An earlier template gets its replica set again, with the next revision. Old replica sets are kept up to a limit."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        simulation = Simulation(plane)
        await plane.control_plane.client.create(TEAM, DEPLOYMENTS, deployment())
        seen = []
        for image in ("i:1", "i:2", "i:1", "i:3"):
            await change(plane, template=deployment(image=image)["spec"]["template"], revisionHistoryLimit=1)
            async with asyncio.timeout(60):
                while not await rolled_out(plane, TEAM):
                    simulation.now += 10
                    await simulation.of("deployments/web")
                    for name in await plane.names(TEAM, REPLICA_SETS):
                        await simulation.of(f"replicasets/{name}")
            found = await plane.find(TEAM, DEPLOYMENTS, "web")
            assert found is not None
            sets = (await plane.control_plane.client.list(TEAM, REPLICA_SETS)).items
            revisions = sorted(one["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for one in sets)
            seen.append((found["metadata"]["annotations"]["deployment.kubernetes.io/revision"], revisions))
        assert seen == [("1", ["1"]), ("2", ["1", "2"]), ("3", ["2", "3"]), ("4", ["3", "4"])]


async def test_a_deployment_without_replica_sets_becomes_ready(tmp_path: Path) -> None:
    """In a cluster that does not serve them; a paused one gets none either."""
    async with open_plane(WAYS[0], tmp_path, "deployments.apps") as plane:
        simulation = Simulation(plane)
        await plane.control_plane.client.create(TEAM, DEPLOYMENTS, deployment())
        await simulation.of("deployments/web")
        simulation.now = 10
        assert await simulation.of("deployments/web") == 0
        found = await plane.find(TEAM, DEPLOYMENTS, "web")
        assert found is not None
        assert found["status"]["readyReplicas"] == 2


@pytest.mark.parametrize("spec", [None, "text", {"containers": 5}, {"containers": [{"image": "no name"}]}])
async def test_another_schema_is_left_alone(spec: Any) -> None:
    """A CRD may have the name of a kind of Kubernetes."""
    async with open_registry(MemoryStorage()) as registry:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "pods", "singular": "pod", "kind": "Pod", "listKind": "PodList"}
        crd = {"metadata": {"name": "pods.core"}, "spec": {"group": "", "scope": "Namespaced", "names": names, "versions": [version]}}
        await registry.establish(TEAM, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **crd})
        before = await registry.client.create(TEAM, PODS, {"metadata": {"name": "one", "namespace": "default"}, "spec": spec})
        simulator = WorkloadSimulator(registry.client, delay=0, now=lambda: NOW)
        assert await simulator.reconcile(Key(TEAM, "default", "pods/one")) == 0
        assert await registry.client.get(TEAM, PODS, "default", "one") == before


async def test_nothing_is_simulated_unless_it_is_asked_for(tmp_path: Path) -> None:
    """A star does not stand for the simulation, and a name with a dash switches it off."""
    async with open_plane(WAYS[0], tmp_path) as plane:

        def names(*selection: str, settings: ControllerSettings | None = None) -> set[str]:
            loops = start_controllers(plane.supervisor, plane.client, plane.tap, selection, settings=settings)
            return {loop.name for loop in loops}

        name = "workload-simulation-controller"
        assert name not in names("*")
        assert name in names("*", settings=SIMULATED)
        assert name not in names("*", f"-{name}", settings=SIMULATED)
