"""Webhooks of connections, and of the bodies of other subresources. The requests are those of kube-apiserver 1.37."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.admission.webhook.conftest import Hooks, configure, json_patch
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio
PODS = "/clusters/a/api/v1/namespaces/default/pods"
RULES = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods/*"]}]
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}}


@pytest.fixture
async def api(tmp_path: Path, hooks: Hooks) -> AsyncIterator[Api]:
    """The administrator of a cluster with a pod of two containers, whose subresources have webhooks."""
    given = options(tmp_path, webhook_networks=("127.0.0.0/8",), builtin_kinds=("pods", "poddisruptionbudgets.policy"))
    async with (
        ControlPlane(given) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        made = Api(client, control_plane)
        await made.ok("POST", PODS, POD)
        await configure(made, "mutating", hooks.webhook("/m", rules=RULES))
        await configure(made, "validating", hooks.webhook("/v", rules=RULES))
        yield made


def pod_request(subresource: str, kind: str, **obj: Any) -> dict[str, Any]:
    """What a review says about a connection, without uid and user."""
    resource, whole = {"group": "", "version": "v1", "resource": "pods"}, {"group": "", "version": "v1", "kind": kind}
    return {
        "kind": whole,
        "resource": resource,
        "subResource": subresource,
        "requestKind": whole,
        "requestResource": resource,
        "requestSubResource": subresource,
        "name": "p",
        "namespace": "default",
        "operation": "CONNECT",
        "object": {"kind": kind, "apiVersion": "v1", **obj},
        "oldObject": None,
        "dryRun": False,
        "options": None,
    }


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_reviews_of_connections(api: Api, hooks: Hooks, method: str) -> None:
    """They have the options of the connection, and no options of a write."""
    expected = []
    for query, subresource, kind, obj in (
        (
            "exec?command=a&command=b&stdout=true&tty=0&container=c",
            "exec",
            "PodExecOptions",
            {"command": ["a", "b"], "stdout": True, "container": "c"},
        ),
        ("attach?stdin=1&container=c", "attach", "PodAttachOptions", {"stdin": True, "container": "c"}),
        ("portforward?ports=80", "portforward", "PodPortForwardOptions", {"ports": [80]}),
        ("proxy/x/y?z=1", "proxy", "PodProxyOptions", {"path": "/x/y"}),
    ):
        assert (await api(method, f"{PODS}/p/{query}")).status_code >= 400
        expected += [pod_request(subresource, kind, **obj)] * 2
    assert [{field: value for field, value in one.items() if field not in {"uid", "userInfo"}} for one in hooks.asked()] == expected


async def test_a_webhook_chooses_the_container(api: Api, hooks: Hooks) -> None:
    """The connection has the options that webhooks made; validating webhooks see them."""
    hooks.answers["/m"] = json_patch({"op": "add", "path": "/container", "value": "zzz"})
    refused = await api("POST", f"{PODS}/p/exec?command=a&stdout=true&container=c")
    assert "container zzz is not valid for pod p" in refused.json()["message"]
    assert [one["object"]["container"] for one in hooks.asked()] == ["c", "zzz"]
    for operation in (
        {"op": "add", "path": "/kind", "value": "Pod"},
        {"op": "replace", "path": "", "value": []},
        {"op": "remove", "path": "/apiVersion"},
    ):
        hooks.answers["/m"] = json_patch(operation)
        assert "made something else of the object" in (await api.fails(500, "POST", f"{PODS}/p/exec?command=a"))["message"]


async def test_evictions_and_bindings(api: Api, hooks: Hooks) -> None:
    """Their bodies have the namespace of the request, and those that a webhook refuses have no effect."""
    hooks.answers["/v"] = {"allowed": False, "status": {"message": "no", "code": 403}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    for subresource, body in (("eviction", eviction), ("binding", binding)):
        refused = await api.fails(403, "POST", f"{PODS}/p/{subresource}", body)
        assert refused["message"] == 'admission webhook "v.example.com" denied the request: no'
    assert [(one["operation"], one["kind"]["kind"], one["object"]["metadata"]["namespace"], one["name"]) for one in hooks.asked("/v")] == [
        ("CREATE", "Eviction", "default", "p"),
        ("CREATE", "Binding", "default", "p"),
    ]
    pod = await api.ok("GET", f"{PODS}/p")
    assert "nodeName" not in pod["spec"]
    assert "deletionTimestamp" not in pod["metadata"]
    hooks.answers.clear()
    await api.ok("POST", f"{PODS}/p/binding", binding)
    assert (await api.ok("GET", f"{PODS}/p"))["spec"]["nodeName"] == "n"
