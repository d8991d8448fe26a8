"""FlowSchemas and PriorityLevelConfigurations that clusters have, compared with those of kube-apiserver, and rules of kinds around them."""

from __future__ import annotations

import pytest

from tests.server.handlers.answers import recorded, step_differences
from tests.server.handlers.conftest import Api, Watch
from tests.server.handlers.upstreamkinds import installed

pytestmark = pytest.mark.anyio

KINDS = (
    "apiservices.apiregistration.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "priorityclasses.scheduling.k8s.io",
)
SCHEMAS = "/clusters/{}/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def test_they_are_those_of_kube_apiserver(api: Api) -> None:
    """Specifications, what may change of them and of the classes of the system, defaults (recorded from kube-apiserver 1.37.2)."""
    await installed(api, *KINDS)
    found: list[str] = []
    for scenario in recorded("flowcontrol"):
        found += await step_differences(api, scenario)
    assert found == []


async def test_a_changed_one_is_stored_in_its_cluster(api: Api) -> None:
    """It stays changed, no other cluster sees it, and its deletion brings back what the program has."""
    await installed(api, KINDS[1])
    own, path = SCHEMAS.format("a"), f"{SCHEMAS.format('a')}/probes"
    before = await api.ok("GET", path)
    changed = await api.ok("PATCH", path, {"spec": {"matchingPrecedence": 3}}, headers=MERGE)
    assert (changed["metadata"]["uid"], changed["metadata"]["generation"]) == (before["metadata"]["uid"], 2)
    async with Watch(api, own, resourceVersion=changed["metadata"]["resourceVersion"]) as watch:
        await api.ok("DELETE", path)
        events = [await watch.next(), await watch.next()]
    assert [(event["type"], event["object"]["spec"]["matchingPrecedence"]) for event in events if event] == [("DELETED", 3), ("ADDED", 2)]
    listed = await api.ok("GET", SCHEMAS.format("*"))
    assert {item["metadata"]["annotations"]["kcp.io/cluster"] for item in listed["items"]} == {"a"}
