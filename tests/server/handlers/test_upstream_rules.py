"""Rules of single kinds: signing requests, nodes, events."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api
from tests.server.handlers.upstreamkinds import APPLY, PODS, SERVICES, installed, pod

pytestmark = pytest.mark.anyio


async def test_signing_requests_say_who_made_them(api: Api):
    """Who asks is what authentication says, whatever the object says, and cannot be changed afterwards."""
    await installed(api, "certificatesigningrequests")
    requests = "/clusters/a/apis/certificates.k8s.io/v1/certificatesigningrequests"
    forged = {"username": "root", "uid": "0", "groups": ["system:masters"], "extra": {"a": ["b"]}}
    wanted = {"request": "Y\nWJj\r\n", "signerName": "example.com/s", "usages": ["client auth"]}
    body = {"metadata": {"name": "one"}, "spec": {**wanted, **forged}, "status": {"certificate": "YQ=="}}
    bob = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters", "Impersonate-Extra-Scopes": "x"}
    created = await api.ok("POST", requests, body, headers=bob)
    groups = ["system:masters", "system:authenticated"]
    mine = {"username": "bob", "groups": groups, "extra": {"scopes": ["x"]}}
    assert created["spec"] == {**wanted, "request": "YWJj", **mine}
    assert created["status"] == {}
    changed = await api.ok("PUT", f"{requests}/one", {**created, "spec": {**wanted, **forged, "request": "YWI="}})
    assert changed["spec"] == created["spec"]
    patched = await api.ok("PATCH", f"{requests}/one", {"spec": forged}, headers={"Content-Type": "application/merge-patch+json"})
    assert patched["spec"] == created["spec"]
    config = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "two"},
        "spec": body["spec"],
    }
    applied = await api.ok("PATCH", f"{requests}/two?fieldManager=x", config, headers={**APPLY, "Impersonate-User": "eve"} | bob)
    assert applied["spec"]["username"] == "bob"


async def test_subresources_of_nodes(api: Api):
    """Requests that a kubelet would answer are refused with the reason, so that users do not search for the fault in the pod."""
    await installed(api, "pods", "nodes", "services")
    await api.ok("POST", PODS, pod())
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
