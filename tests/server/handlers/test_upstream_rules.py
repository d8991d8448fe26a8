"""Rules of single kinds: signing requests, nodes, events."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api
from tests.server.handlers.upstreamkinds import PODS, SERVICES, installed, pod

pytestmark = pytest.mark.anyio


async def test_subresources_of_nodes(api: Api):
    """Requests that a kubelet would answer are refused with the reason, so that users do not search for the fault in the pod."""
    await installed(api, "pods", "nodes", "services", "endpoints")
    status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    await api.ok("POST", "/clusters/a/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
    made = await api.ok("POST", PODS, pod(nodeName="n"))
    await api.ok("PUT", f"{PODS}/one/status", {**made, "status": {"podIPs": [{"ip": "10.1.2.3"}]}})
    await api.ok("POST", SERVICES, {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}})
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]
    await api.ok("POST", "/clusters/a/api/v1/namespaces/default/endpoints", {"metadata": {"name": "one"}, "subsets": subsets})
    for method, path in (
        ("GET", f"{PODS}/one/log"),
        ("GET", f"{PODS}/one/exec?command=ls"),
        ("POST", f"{PODS}/one/exec?command=ls"),
        ("POST", f"{PODS}/one/attach"),
        ("POST", f"{PODS}/one/portforward"),
        ("GET", f"{PODS}/one/proxy/x/y"),
        ("GET", f"{SERVICES}/one/proxy"),
        ("GET", "/clusters/a/api/v1/nodes/n/proxy/logs"),
    ):
        status = await api.fails(501, method, path)
        assert status["reason"] == "NotImplemented"
        assert status["message"].endswith("is not available: this server stores objects, it has no nodes on which pods could run")
    assert (await api("GET", f"{PODS}/one/other")).status_code == 404


async def test_events_are_selected_by_their_source(api: Api):
    """What has no source is selected by the controller that reports it, in lists and watches of core/v1."""
    events = "/clusters/a/api/v1/namespaces/default/events"
    about = {"involvedObject": {"namespace": "default"}}
    await api.ok("POST", events, {"metadata": {"name": "old"}, "source": {"component": "kubelet"}, **about})
    new = {"reportingComponent": "example.com/kubelet", "reportingInstance": "a", "action": "b", "reason": "c"}
    new["eventTime"] = "2026-01-01T00:00:00.000000Z"
    await api.ok("POST", events, {"metadata": {"name": "new"}, **new, **about})
    both = {**new, "reportingComponent": "example.com/kubelet", "source": {"component": "other"}}
    await api.ok("POST", events, {"metadata": {"name": "both"}, **both, **about})

    async def selected(selector: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await api.ok("GET", events, params={"fieldSelector": selector}))["items"]]

    assert await selected("source=kubelet") == ["old"]
    assert await selected("source=example.com/kubelet") == ["new"]
    assert await selected("source=other") == ["both"]
    assert await selected("source!=kubelet") == ["both", "new"]
