"""Answers to writes that ValidatingAdmissionPolicies are about, compared with kube-apiserver 1.37.2."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import OPERATIONS, AdmissionPlugin, Attributes
from tests.admission.policy.making import GROUP, rule
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

CONTROLLERS = "system:serviceaccount:kube-system:"
LOOP = "[0,1,2,3,4,5,6,7,8,9].all(a, {})"


def nested(depth: int) -> str:
    """An expression whose cost grows with the depth: five are half of what an expression may cost, and seven too much."""
    text = "true"
    for _ in range(depth):
        text = LOOP.format(text)
    return text


# `NS` stands for the namespace of a case, and `NESTED5` for `nested(5)`. Without a `request` a case creates a config map.
TEXT = (Path(__file__).parent / "validations.json").read_text()
CASES: list[dict[str, Any]] = json.loads(TEXT.replace("NESTED5", nested(5)).replace("NESTED7", nested(7)))
CREATE = ["POST", "/api/v1/namespaces/NS/configmaps", {"metadata": {"name": "x", "labels": {"a": "b"}}, "data": {"k": "1"}}]
NAMESPACED = [rule("configmaps")]
CLUSTER_SCOPED = [{**rule("namespaces", "clusterroles"), "apiGroups": ["", "rbac.authorization.k8s.io"]}]


class Recorder(AdmissionPlugin):
    """Keeps the audit annotations of the last write in a cluster by another client than a controller, which writes at any time."""

    name = "Recorder"
    operations = (*OPERATIONS, "CONNECT")

    def __init__(self) -> None:
        self.annotations: dict[Name, Mapping[str, str]] = {}

    async def validate(self, attributes: Attributes) -> None:
        if not attributes.user.name.startswith(CONTROLLERS):
            self.annotations[attributes.cluster] = attributes.audit_annotations


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Api, Recorder]]:
    """A control plane for all cases, each of which has a cluster."""
    recorder = Recorder()
    async with ControlPlane(options(tmp_path_factory.mktemp("root")), admission=(recorder,)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane), recorder


def configuration(case: dict[str, Any], namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The policy and the bindings of a case, with their resources."""
    spec = dict(case["spec"])
    selector = spec.pop("objectSelector", None)
    constraints = dict(spec.get("matchConstraints") or {"resourceRules": CLUSTER_SCOPED if case.get("cluster") else NAMESPACED})
    if case.get("cluster"):
        constraints["objectSelector"] = {"matchLabels": {"case": namespace}}
    else:
        constraints["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        others = {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["param"]}]}
        constraints["objectSelector"] = {"matchLabels": selector} if selector else others
    name = f"p-{namespace}"
    yield "validatingadmissionpolicies", {"metadata": {"name": name}, "spec": {**spec, "matchConstraints": constraints}}
    for index, binding in enumerate(case.get("bindings", [{}])):
        bound = {"policyName": name, "validationActions": ["Deny"], **binding}
        yield "validatingadmissionpolicybindings", {"metadata": {"name": f"b{index}-{namespace}"}, "spec": bound}


async def answer_of(api: Api, recorder: Recorder, case: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The answer to the request of a case, in the form of the recorded ones."""
    cluster = f"case-{namespace}"
    root = f"/clusters/{cluster}"
    await api.ok("POST", f"{root}/api/v1/namespaces", {"metadata": {"name": namespace}})
    for method, path, body in case.get("objects", ()):
        await api.ok(method, root + path, body)
    for resource, obj in configuration(case, namespace):
        response = await api("POST", f"{root}/{GROUP}/{resource}", obj)
        if response.status_code != 201:
            return {"rejected": response.json()["message"]}
    method, path, body, *types = case.get("request") or json.loads(json.dumps(CREATE).replace("NS", namespace))
    headers = {"Content-Type": types[0] if types else "application/json"}
    response = await api(method, root + path, content=json.dumps(body).encode(), headers=headers)
    answer: dict[str, Any] = {"code": response.status_code}
    if response.status_code >= 300:
        status = response.json()
        answer["message"] = status["message"]
        if status["reason"] != "Invalid":
            answer["reason"] = status["reason"]
        causes = [cause["message"] for cause in status["details"]["causes"]]
        assert causes == [status["message"].partition(" is forbidden: ")[2]]
    if warnings := response.headers.get_list("warning"):
        answer["warnings"] = warnings
    if annotations := recorder.annotations.get(Name(cluster)):
        answer["annotations"] = dict(annotations)
    return answer


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda index: CASES[index]["name"])
async def test_answers(served: tuple[Api, Recorder], index: int) -> None:
    """Codes, texts, warnings and audit annotations."""
    namespace = f"t{index}"
    case = json.loads(json.dumps(CASES[index]).replace("NS", namespace))
    assert await answer_of(*served, case, namespace) == case["answer"]
