"""Status, metadata and generation of Kubernetes' kinds: which writes change what."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api
from tests.server.handlers.upstreamkinds import DEPLOYMENTS, PODS, STRATEGIC, deployment, installed, pod

pytestmark = pytest.mark.anyio


async def test_nodes_bring_their_status_along(api: Api):
    """Those that register a node say at once how it is."""
    await installed(api, "nodes")
    node = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "1"}}}
    created = await api.ok("POST", "/clusters/a/api/v1/nodes", node)
    status = created["status"]
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "1"}, {"cpu": "1"})
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


async def test_status_is_merged_by_the_types_of_conditions(api: Api):
    """Controllers patch one condition and leave the others; through the object itself the status does not change."""
    await installed(api, "pods")
    await api.ok("POST", PODS, pod())
    for kind, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True")):
        patch = {"status": {"phase": "Running", "conditions": [{"type": kind, "status": value}]}}
        patched = await api.ok("PATCH", f"{PODS}/one/status", patch, headers=STRATEGIC)
    found = {condition["type"]: condition["status"] for condition in patched["status"]["conditions"]}
    assert found == {"Ready": "True", "Initialized": "True"}
    assert patched["status"]["qosClass"] == "BestEffort"
    await api.ok("PATCH", f"{PODS}/one", {"status": {"phase": "Failed"}}, headers=STRATEGIC)
    assert (await api.ok("GET", f"{PODS}/one"))["status"]["phase"] == "Running"


async def test_what_the_status_changes_of_the_metadata(api: Api):
    """Through `/status`, a kind changes what its rules leave to it: no labels of deployments, nothing of taint rules."""
    await installed(api, "deployments", "daemonsets", "devicetaintrules")
    await api.ok("POST", DEPLOYMENTS, deployment())
    daemons = DEPLOYMENTS.replace("deployments", "daemonsets")
    await api.ok("POST", daemons, {**deployment(), "kind": "DaemonSet"})
    rules = "/clusters/a/apis/resource.k8s.io/v1/devicetaintrules"
    taint = {"key": "example.com/k", "effect": "NoSchedule"}
    await api.ok("POST", rules, {"metadata": {"name": "web"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}})
    change = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/f"]}, "spec": {"paused": True}}
    found = {}
    for path in (DEPLOYMENTS, daemons, rules):
        patched = await api.ok("PATCH", f"{path}/web/status?fieldManager=me", change, headers=STRATEGIC)
        assert patched["metadata"]["generation"] == 1
        assert "paused" not in patched["spec"]
        metadata = patched["metadata"]
        found[path] = (metadata.get("labels"), metadata["annotations"].get("c"), metadata.get("finalizers"))
        assert await api.ok("GET", f"{path}/web") == patched
    assert found == {
        DEPLOYMENTS: (None, "d", ["example.com/f"]),
        daemons: ({"a": "b"}, "d", ["example.com/f"]),
        rules: (None, None, None),
    }


async def test_generations_count_what_controllers_follow(api: Api):
    """Annotations of deployments are copied to replica sets and count, those of others do not. Templates of daemon sets are counted."""
    await installed(api, "deployments", "daemonsets", "endpointslices")
    daemons = DEPLOYMENTS.replace("deployments", "daemonsets")
    slices = "/clusters/a/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    await api.ok("POST", DEPLOYMENTS, deployment())
    await api.ok("POST", daemons, {**deployment(), "kind": "DaemonSet"})
    await api.ok("POST", slices, {"metadata": {"name": "web"}, "addressType": "IPv4", "endpoints": []})
    annotated = {"metadata": {"annotations": {"a": "b", "deprecated.daemonset.template.generation": "9"}}}
    labelled = {"metadata": {"labels": {"a": "b"}}}
    found = []
    for patch in (annotated, labelled, {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}}):
        generations = []
        for path in (DEPLOYMENTS, daemons, slices):
            if "spec" in patch and path == slices:
                continue
            generations.append((await api.ok("PATCH", f"{path}/web", patch, headers=STRATEGIC))["metadata"]["generation"])
        found.append(generations)
    assert found == [[2, 1, 1], [2, 1, 2], [3, 2]]
    assert (await api.ok("GET", f"{daemons}/web"))["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == "2"
