"""Admission webhooks of a Python program, with kubectl.

Source: the conformance tests of Kubernetes about webhooks (`test/e2e/apimachinery/webhook.go`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl, ServerProcess
from e2e.test_conversion import HookThread
from tests.egress.https import HttpsServer, Request, http
from tests.server.handlers.conftest import make_crd

TIMEOUT = 60
DENIED = "denied the request: the object has a forbidden key"


async def respond(request: Request) -> bytes:
    """`/deny` refuses objects with the key `bad`, and their deletion; `/first` and `/second` add keys, the second after the first."""
    asked = request.json()["request"]
    obj = asked["object"] or asked["oldObject"]
    response: dict[str, Any] = {"uid": asked["uid"], "allowed": True}
    data = obj.get("data") or {}
    patch: list[dict[str, Any]] = []
    match request.target.partition("?")[0]:
        case "/deny" if "bad" in data or asked["kind"]["kind"] == "CustomResourceDefinition":
            response |= {"allowed": False, "status": {"message": "the object has a forbidden key"}}
        case "/first":
            patch = [{"op": "add", "path": "/data/first", "value": "1"}]
        case "/second" if "first" in data:
            patch = [{"op": "add", "path": "/data/second", "value": "2"}, {"op": "add", "path": "/unknown", "value": "x"}]
    if patch and asked["operation"] == "CREATE":
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return http(200, json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode())


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsServer]:
    with HookThread(tmp_path_factory.mktemp("hook"), respond) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that may call webhooks of this machine."""
    process = ServerProcess(tmp_path_factory.mktemp("server") / "root", "--webhook-networks", "127.0.0.0/8").start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def client(server: ServerProcess, kubectl_binary: str, tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    cluster = request.node.name.replace("_", "-")
    return Kubectl(kubectl_binary, server.kubeconfig, tmp_path / "cache", f"{server.url}/clusters/{cluster}")


def configuration(kind: str, name: str, hook: HttpsServer, *paths: str, **more: Any) -> str:
    resources = ["configmaps", "widgets", "customresourcedefinitions"]
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}]
    webhooks = [
        {
            "name": f"{path}.example.com",
            "clientConfig": {"url": f"{hook.origin}/{path}", "caBundle": hook.certificate.bundle},
            "rules": rules,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]},
            **more,
        }
        for path in paths
    ]
    metadata = {"name": name, "labels": {"e2e": "yes"}}
    return json.dumps({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": webhooks})


def test_validating(client: Kubectl, hook: HttpsServer) -> None:
    """Objects, custom resources and CRDs are refused when they are created, changed and deleted, except in exempt namespaces."""
    crd = make_crd(schema={"type": "object", "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}}})
    client.run("apply", "-f", "-", stdin=json.dumps(crd))
    client.run("wait", "--for=condition=Established", "crd/widgets.example.com", f"--timeout={TIMEOUT}s")
    client.run("create", "configmap", "old", "--from-literal=bad=1")
    client.run("apply", "-f", "-", stdin=configuration("ValidatingWebhookConfiguration", "deny", hook, "deny"))
    assert DENIED in client.run("create", "configmap", "x", "--from-literal=bad=1", fails=True)
    client.run("create", "configmap", "x", "--from-literal=good=1")
    assert DENIED in client.run("patch", "configmap", "x", "--type=merge", "-p", '{"data":{"bad":"1"}}', fails=True)
    assert DENIED in client.run("delete", "configmap", "old", fails=True)
    widget = json.dumps({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "data": {"bad": "1"}})
    assert DENIED in client.run("create", "-f", "-", stdin=widget, fails=True)
    assert DENIED in client.run("apply", "-f", "-", stdin=json.dumps(make_crd("parts")), fails=True)
    client.run("create", "namespace", "free")
    client.run("label", "namespace", "free", "exempt=yes")
    client.run("create", "configmap", "x", "-n", "free", "--from-literal=bad=1")
    rule = '[{"op":"replace","path":"/webhooks/0/rules/0/operations","value":["UPDATE"]}]'
    client.run("patch", "validatingwebhookconfiguration", "deny", "--type=json", "-p", rule)
    client.run("create", "configmap", "y", "--from-literal=bad=1")
    client.run("delete", "validatingwebhookconfiguration", "-l", "e2e=yes")
    client.run("delete", "configmap", "old", "y")


def test_mutating(client: Kubectl, hook: HttpsServer) -> None:
    """Webhooks change an object in the order of their names; unknown fields are dropped; match conditions leave objects out."""
    skip = [{"name": "skip", "expression": "object.metadata.name != 'skip-me'"}]
    text = configuration("MutatingWebhookConfiguration", "m", hook, "first", "second", matchConditions=skip)
    client.run("apply", "-f", "-", stdin=text)
    client.run("create", "configmap", "x", "--from-literal=a=b")
    assert client.json("get", "configmap", "x")["data"] == {"a": "b", "first": "1", "second": "2"}
    assert client.json("create", "configmap", "y", "--from-literal=a=b", "--dry-run=server")["data"]["second"] == "2"
    client.run("create", "configmap", "skip-me", "--from-literal=a=b")
    assert client.json("get", "configmap", "skip-me")["data"] == {"a": "b"}
    broken = text.replace("object.metadata.name != 'skip-me'", "object.metadata.name ==")
    assert "compilation failed" in client.run("replace", "-f", "-", stdin=broken, fails=True)


def test_failing_closed_and_open(client: Kubectl, hook: HttpsServer) -> None:
    """A webhook without a trusted certificate refuses every write that it matches, or none; its configuration can be deleted."""
    untrusted = {"url": f"{hook.origin}/first"}
    text = configuration("ValidatingWebhookConfiguration", "closed", hook, "first", clientConfig=untrusted)
    client.run("apply", "-f", "-", stdin=text)
    assert 'failed calling webhook "first.example.com"' in client.run("create", "configmap", "x", fails=True)
    client.run("apply", "-f", "-", stdin=text.replace('"sideEffects"', '"failurePolicy": "Ignore", "sideEffects"'))
    client.run("create", "configmap", "x")
    client.run("delete", "validatingwebhookconfiguration", "closed")
