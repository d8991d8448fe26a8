"""The status of budgets follows their pods and the controllers of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.controllers import start_controllers
from kcp_py.controllers.disruption import BUDGETS, DELETION_TIMEOUT, PODS, DisruptionController
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

KINDS = ("pods", "poddisruptionbudgets.policy", "replicasets.apps", "deployments.apps")
REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
KEY = Key(TEAM, "default", "b")
NOW = "2026-01-01T00:00:00Z"


async def create_budget(plane: Plane, cluster: Any = TEAM, name: str = "b", **spec: Any) -> None:
    selector = {"matchLabels": {"app": "x"}}
    await plane.control_plane.client.create(
        cluster, BUDGETS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector, **spec}}
    )


async def create_pod(plane: Plane, name: str, *, ready: bool = True, cluster: Any = TEAM, owner: dict[str, Any] | None = None) -> None:
    client = plane.control_plane.client
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": "x"}}
    if owner is not None:
        identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        metadata["ownerReferences"] = [{**identity, "uid": owner["metadata"]["uid"], "controller": True}]
    made = await client.create(cluster, PODS, {"metadata": metadata, "spec": {"containers": [{"name": "a", "image": "b"}]}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    await client.update(cluster, PODS, {**made, "status": status}, subresource="status")


async def create_owner(plane: Plane, resource: GroupVersionResource, replicas: int, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    metadata: dict[str, Any] = {"name": "o", "namespace": "default"}
    if owner is not None:
        reference = {"apiVersion": "apps/v1", "kind": owner["kind"], "name": "o", "uid": owner["metadata"]["uid"], "controller": True}
        metadata["ownerReferences"] = [reference]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    return await plane.control_plane.client.create(TEAM, resource, {"metadata": metadata, "spec": spec})


async def counts(plane: Plane, cluster: Any = TEAM) -> tuple[int, int, int, int]:
    """Allowed disruptions, healthy, desired and expected pods."""
    budget = await plane.find(cluster, BUDGETS, "b")
    status = (budget or {}).get("status") or {}
    members = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    allowed, healthy, desired, expected = (status.get(member, -1) for member in members)
    return allowed, healthy, desired, expected


@pytest.mark.parametrize("way", WAYS)
async def test_a_budget_follows_its_pods(way: str, tmp_path: Path) -> None:
    """From their creation to their eviction. Pods of other clusters do not count."""
    async with open_plane(way, tmp_path, *KINDS) as plane:
        start_controllers(plane.supervisor, plane.client, plane.tap, ("disruption",))
        await create_budget(plane, minAvailable=1)
        for name in ("one", "two"):
            await create_pod(plane, name)
        await create_pod(plane, "three", ready=False)
        await create_pod(plane, "four", cluster=OTHER)

        async def all_counted() -> bool:
            return await counts(plane) == (1, 2, 1, 3)

        await plane.until(all_counted)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one", "namespace": "default"}}
        await plane.control_plane.client.create(TEAM, PODS, eviction, name="one", subresource="eviction")

        async def eviction_counted() -> bool:
            budget = await plane.find(TEAM, BUDGETS, "b")
            return await counts(plane) == (0, 1, 1, 2) and "disruptedPods" not in (budget or {})["status"]

        await plane.until(eviction_counted)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": "50%"}, (1, 2, 1, 2)),
        ({"minAvailable": "51%"}, (0, 2, 2, 2)),
        ({"maxUnavailable": 1}, (1, 2, 1, 2)),
        ({"maxUnavailable": "100%"}, (2, 2, 0, 2)),
        ({"maxUnavailable": 5}, (2, 2, 0, 2)),
        ({"minAvailable": 0}, (2, 2, 0, 2)),
        ({}, (0, 2, 0, 0)),
    ],
    ids=["half", "rounded up", "one", "all", "more than all", "none needed", "nothing said"],
)
async def test_shares_are_those_of_the_controllers_of_the_pods(
    spec: dict[str, Any], expected: tuple[int, int, int, int], tmp_path: Path
) -> None:
    """The replicas that a deployment wants, above the replica set that the pods name."""
    async with open_plane("in process", tmp_path, *KINDS) as plane:
        deployment = await create_owner(plane, DEPLOYMENTS, 2)
        replica_set = await create_owner(plane, REPLICA_SETS, 7, deployment)
        for name in ("one", "two"):
            await create_pod(plane, name, owner=replica_set)
        await create_budget(plane, **spec)
        await DisruptionController(plane.client).reconcile(KEY)
        assert await counts(plane) == expected


async def test_nothing_is_allowed_where_controllers_are_missing(tmp_path: Path) -> None:
    """The condition says why, and the reconciliation is complete."""
    async with open_plane("in process", tmp_path, *KINDS) as plane:
        owner = await create_owner(plane, REPLICA_SETS, 2)
        await create_pod(plane, "one", owner={**owner, "metadata": {"name": "o", "uid": "another"}})
        await create_budget(plane, maxUnavailable=1)
        assert await DisruptionController(plane.client).reconcile(KEY) == 0
        budget = await plane.find(TEAM, BUDGETS, "b")
        assert budget is not None
        condition = budget["status"]["conditions"][0]
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "False",
            "SyncFailed",
            'found no controllers for pod "one"',
        )
        assert budget["status"]["disruptionsAllowed"] == 0


async def test_an_evicted_pod_that_stays_counts_again(tmp_path: Path) -> None:
    """Two minutes after its eviction, when the budget is looked at again."""
    async with open_plane("in process", tmp_path, *KINDS) as plane:
        client = plane.control_plane.client
        await create_pod(plane, "one")
        await create_budget(plane, minAvailable=0)
        budget = await plane.find(TEAM, BUDGETS, "b")
        assert budget is not None
        counted = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": 0}
        await client.update(
            TEAM, BUDGETS, {**budget, "status": {**counted, "disruptedPods": {"one": NOW, "gone": NOW}}}, subresource="status"
        )
        at = parse_time(NOW)
        controller = DisruptionController(plane.client, clock=lambda: at + 20)
        assert await controller.reconcile(KEY) == Later(DELETION_TIMEOUT - 20)
        assert await counts(plane) == (0, 0, 0, 1)
        assert ((await plane.find(TEAM, BUDGETS, "b")) or {})["status"]["disruptedPods"] == {"one": NOW}
        controller = DisruptionController(plane.client, clock=lambda: at + DELETION_TIMEOUT + 1)
        assert await controller.reconcile(KEY) == 0
        assert await counts(plane) == (1, 1, 0, 1)


async def test_a_status_that_holds_is_not_written(tmp_path: Path) -> None:
    """A second look changes nothing. A budget that is gone is nothing to do."""
    async with open_plane("in process", tmp_path, *KINDS) as plane:
        await create_pod(plane, "one")
        await create_budget(plane, minAvailable=1)
        controller = DisruptionController(plane.client)
        await controller.reconcile(KEY)
        before = await plane.find(TEAM, BUDGETS, "b")
        await controller.reconcile(KEY)
        assert await plane.find(TEAM, BUDGETS, "b") == before
        assert await controller.reconcile(KEY._replace(name="other")) == 0
