"""The rounds of policies and webhooks that change an object, compared with kube-apiserver 1.37.2."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.controlplane import ControlPlane
from tests.admission.policy.making import GROUP, rule
from tests.egress.https import HttpsServer, Request, http, issue
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

# Each policy and webhook is its letter, its `reinvocationPolicy` and its mode. It appends its letter to `data.trace`, first `-`.
# kube-apiserver takes policies in any order; here it is that of the names.
CASES = json.loads((Path(__file__).parent / "reinvocations.json").read_text())
TRACE = "object.data.trace"


async def respond(request: Request) -> bytes:
    """A webhook whose path is its mode and its letter."""
    mode, letter = request.target.partition("?")[0].strip("/").split("/")
    review = request.json()["request"]
    trace = review["object"]["data"]["trace"]
    response = {"uid": review["uid"], "allowed": True}
    if mode == "always" or (mode == "once" and letter not in trace):
        patch = orjson.dumps([{"op": "add", "path": "/data/trace", "value": trace + letter}])
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
    return http(200, orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Api, HttpsServer]]:
    """A control plane and a server of webhooks."""
    directory = tmp_path_factory.mktemp("root")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(HttpsServer(issue(tmp_path_factory.mktemp("pki"), "127.0.0.1"), respond))
        control_plane = await stack.enter_async_context(ControlPlane(options(directory, webhook_networks=("127.0.0.0/8",))))
        transport = httpx.ASGITransport(control_plane.app)
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="https://kcp.test"))
        yield Api(client, control_plane), server


def mutation(letter: str, mode: str) -> dict[str, Any]:
    """What a policy of a mode makes."""
    kind, _, other = mode.partition(":")
    match kind:
        case "none":
            expression = f"Object{{data: {{'trace': {TRACE}}}}}"
        case "json":
            expression = f"[JSONPatch{{op: 'replace', path: '/data/trace', value: {TRACE} + '{letter}'}}]"
            return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        case "fails":
            expression = f"Object{{data: {{'trace': {TRACE}.contains('{other}') ? object.data.nope : {TRACE} + '{letter}'}}}}"
        case _:
            expression = f"Object{{data: {{'trace': {TRACE} + '{letter}'}}}}"
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def conditions(letter: str, mode: str) -> list[dict[str, str]]:
    """When a policy of a mode applies."""
    kind, _, other = mode.partition(":")
    expression = {
        "once": f"!{TRACE}.contains('{letter}')",
        "after": f"{TRACE}.contains('{other}')",
        "before": f"!{TRACE}.contains('{other}')",
        "condfails": f"{TRACE}.contains('{other}') ? object.data.nope == 'x' : true",
    }.get(kind)
    return [] if expression is None else [{"name": "c", "expression": expression}]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join("-".join(one) for one in (*case["policies"], *case["webhooks"])))
async def test_rounds(served: tuple[Api, HttpsServer], case: dict[str, Any]) -> None:
    """Which of them see an object twice, and in which order."""
    api, server = served
    cluster = f"/clusters/case-{CASES.index(case)}"
    rules = [rule("configmaps", operations=("CREATE",))]
    for letter, again, mode in case["policies"]:
        spec = {"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": again, "mutations": [mutation(letter, mode)]}
        spec["matchConditions"] = conditions(letter, mode)
        name = f"{case['order'].index(letter)}{letter}"
        await api.ok("POST", f"{cluster}/{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
        binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
        await api.ok("POST", f"{cluster}/{GROUP}/mutatingadmissionpolicybindings", binding)
    webhooks = [
        {
            "name": f"{letter}.example.com",
            "rules": rules,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "reinvocationPolicy": again,
            "clientConfig": {"url": f"{server.origin}/{mode}/{letter}", "caBundle": server.certificate.bundle},
        }
        for letter, again, mode in case["webhooks"]
    ]
    await api.ok("POST", f"{cluster}/{GROUP}/mutatingwebhookconfigurations", {"metadata": {"name": "c"}, "webhooks": webhooks})
    obj = {"metadata": {"name": "x"}, "data": {"trace": "-"}}
    answer = await api("POST", f"{cluster}/api/v1/namespaces/default/configmaps", obj, params={"dryRun": "All"})
    found = answer.json()
    if answer.status_code == 201:
        assert found["data"]["trace"] == case["answer"]
    else:
        assert [answer.status_code, found["message"].replace("'0a'", "'a'").replace("'1a'", "'a'")] == case["answer"]
