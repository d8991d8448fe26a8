"""Evictions that race with each other, with budgets of other places, and with changes of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server with the kinds in every cluster, without the controller that writes the status of budgets."""
    kinds = ("pods", "poddisruptionbudgets.policy")
    settings = options(
        tmp_path, builtin_kinds=kinds, disable_admission_plugins=("ServiceAccount",), controllers=("*", "-disruption-controller")
    )
    async with ControlPlane(settings) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def pods(cluster: str = "a", namespace: str = "default") -> str:
    return f"/clusters/{cluster}/api/v1/namespaces/{namespace}/pods"


def budgets(cluster: str = "a", namespace: str = "default") -> str:
    return f"/clusters/{cluster}/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


async def running(api: Api, name: str, **place: str) -> None:
    """A pod that is ready, with the label `app: x`."""
    spec = {"containers": [{"name": "a", "image": "b"}]}
    await api.ok("POST", pods(**place), {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.ok("PATCH", f"{pods(**place)}/{name}/status", {"status": status}, headers=MERGE)


async def budget(api: Api, allowed: int, name: str = "b", **place: str) -> None:
    """A budget of these pods."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await api.ok("POST", budgets(**place), {"metadata": {"name": name}, "spec": spec})
    status = {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 9, "desiredHealthy": 1, "expectedPods": 9}
    await api.ok("PATCH", f"{budgets(**place)}/{name}/status", {"status": status}, headers=MERGE)


async def evict(api: Api, name: str, **more: Any) -> httpx.Response:
    document = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    return await api("POST", f"{pods()}/{name}/eviction", document)


async def test_no_more_pods_are_evicted_than_allowed(api: Api) -> None:
    """Of evictions at the same time, as many succeed as the budget allows, and their pods are noted in it."""
    names = [f"p{number}" for number in range(12)]
    for name in names:
        await running(api, name)
    await budget(api, 5)
    answers = await asyncio.gather(*(evict(api, name) for name in names))
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [429] * 7
    gone = {name for name, answer in zip(names, answers, strict=True) if answer.status_code == 201}
    status = (await api.ok("GET", f"{budgets()}/b"))["status"]
    assert (status["disruptionsAllowed"], set(status["disruptedPods"])) == (0, gone)
    left = await api.ok("GET", pods())
    assert {item["metadata"]["name"] for item in left["items"]} == set(names) - gone


async def test_budgets_of_other_places_do_not_count(api: Api) -> None:
    """Of another namespace, and of another logical cluster."""
    await running(api, "one")
    await api.ok("POST", "/clusters/a/api/v1/namespaces", {"metadata": {"name": "other"}})
    await budget(api, 0, namespace="other")
    await budget(api, 0, cluster="b")
    assert (await evict(api, "one")).status_code == 201


async def test_repeated_evictions_of_a_pod_count_once_it_exists(api: Api) -> None:
    """The second one finds no pod, and takes nothing from the budget."""
    await running(api, "one")
    await budget(api, 2)
    answers = [await evict(api, "one"), await evict(api, "one")]
    assert [answer.status_code for answer in answers] == [201, 404]
    assert (await api.ok("GET", f"{budgets()}/b"))["status"]["disruptionsAllowed"] == 1


async def test_preconditions_refuse_another_pod(api: Api) -> None:
    """409, with the words of a deletion, and the pod stays."""
    await running(api, "one")
    answer = await evict(api, "one", deleteOptions={"preconditions": {"uid": "0"}})
    assert answer.status_code == 409
    assert "the UID in the precondition (0) does not match the UID in record" in answer.json()["message"]
    found = await api.ok("GET", f"{pods()}/one")
    assert [one["type"] for one in found["status"]["conditions"]] == ["Ready"]
    preconditions = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
    assert (await evict(api, "one", deleteOptions={"preconditions": preconditions})).status_code == 201


async def test_a_pod_with_finalizers_tells_that_it_was_evicted(api: Api) -> None:
    """By a condition, until the finalizers are gone."""
    await running(api, "one")
    await api.ok("PATCH", f"{pods()}/one", {"metadata": {"finalizers": ["example.com/x"]}}, headers=MERGE)
    assert (await evict(api, "one")).status_code == 201
    found = await api.ok("GET", f"{pods()}/one")
    condition = found["status"]["conditions"][-1]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")
    assert found["metadata"]["deletionTimestamp"]


async def test_evictions_need_no_budgets_to_be_served(api: Api) -> None:
    """A cluster without the kind has none."""
    one = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "absent"}}
    assert (await api("POST", f"{pods('c')}/absent/eviction", one)).status_code == 404


@pytest.mark.parametrize(
    "target",
    ["n1", {"name": 7}, {"name": "n1", "kind": ["Node"]}, [], {"name": 7, "kind": "Node"}],
    ids=["text", "number", "list of kinds", "list", "number of a node"],
)
async def test_malformed_bindings_are_refused(api: Api, target: Any) -> None:
    """400, and the pod stays without a node."""
    await running(api, "one")
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": target}
    assert (await api("POST", f"{pods()}/one/binding", body)).status_code == 400
    assert "nodeName" not in (await api.ok("GET", f"{pods()}/one"))["spec"]


async def test_a_pod_is_bound_once(api: Api) -> None:
    """By the first of several schedulers."""
    await running(api, "one")
    bodies = [{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": {"name": f"n{number}"}} for number in range(8)]
    answers = await asyncio.gather(*(api("POST", f"{pods()}/one/binding", body) for body in bodies))
    codes = [answer.status_code for answer in answers]
    assert sorted(codes) == [201] + [409] * 7
    assert (await api.ok("GET", f"{pods()}/one"))["spec"]["nodeName"] == f"n{codes.index(201)}"


@pytest.mark.parametrize(
    "body",
    [
        {"deleteOptions": "all"},
        {"deleteOptions": {"gracePeriodSeconds": "long"}},
        {"deleteOptions": {"preconditions": {"uid": 7}}},
        {"metadata": {"name": 7}},
    ],
    ids=["options", "grace period", "uid", "name"],
)
async def test_malformed_evictions_are_refused(api: Api, body: dict[str, Any]) -> None:
    """400, and the pod stays."""
    await running(api, "one")
    answer = await evict(api, "one", **body) if "metadata" not in body else await api("POST", f"{pods()}/one/eviction", body)
    assert answer.status_code == 400
    await api.ok("GET", f"{pods()}/one")
