"""MutatingAdmissionPolicies over HTTP, compared with the answers of kube-apiserver 1.37.2."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admission.policy.making import CLUSTER, CONFIG_MAPS, GROUP, config_map, rule
from tests.admission.serving import serving
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

CASES = json.loads((Path(__file__).parent / "mutations.json").read_text())
POLICIES = f"{CLUSTER}/{GROUP}/mutatingadmissionpolicies"
BINDINGS = f"{CLUSTER}/{GROUP}/mutatingadmissionpolicybindings"
SET_BY_SERVER = {"annotations", "creationTimestamp", "managedFields", "resourceVersion", "uid"}


@pytest.fixture(scope="module")
async def deployments(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A server whose clusters have deployments."""
    async with serving(tmp_path_factory.mktemp("root"), "deployments.apps") as api:
        yield api


def mutation(kind: str, expression: str) -> dict[str, Any]:
    """A mutation of a kind: `A` for an apply configuration, `J` for a JSON patch."""
    if kind == "A":
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def configure(api: Api, name: str, *mutations: list[str], resource: str = "configmaps", cluster: str = CLUSTER, **more: Any) -> None:
    """Create a policy and its binding, which has the same name."""
    rules = [rule(resource, operations=("CREATE",), group="apps" if resource == "deployments" else "")]
    spec = {"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never", "mutations": [mutation(*one) for one in mutations]}
    base = f"{cluster}/{GROUP}"
    await api.ok("POST", f"{base}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec | (more.get("spec") or {})})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, **(more.get("binding") or {})}}
    await api.ok("POST", f"{base}/mutatingadmissionpolicybindings", binding)


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without the fields that differ from server to server."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in SET_BY_SERVER}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_answers(deployments: Api, case: dict[str, Any]) -> None:
    """Objects after their mutations, and refusals (recorded from kube-apiserver 1.37.2)."""
    api, cluster = deployments, f"/clusters/case-{CASES.index(case)}"
    resource = case.get("resource", "configmaps")
    more = {key: case[key] for key in ("spec", "binding") if key in case}
    await configure(api, "p", *case["mutations"], resource=resource, cluster=cluster, **more)
    path = f"{cluster}/{'apis/apps/v1' if resource == 'deployments' else 'api/v1'}/namespaces/default/{resource}"
    answer = (await api("POST", path, case["object"], params={"dryRun": "All"})).json()
    expected = json.loads(json.dumps(case["answer"]).replace("policy 'p' with binding 'b'", "policy 'p' with binding 'p'"))
    assert (answer if answer["kind"] == "Status" else comparable(answer)) == expected


async def test_reinvocation(api: Api) -> None:
    """Policies that ask for it are applied once more when another one has changed the object."""
    count = "Object{metadata: Object.metadata{labels: {'seen': string(object.data.size())}}}"
    await configure(api, "a", ["A", count], spec={"reinvocationPolicy": "IfNeeded"})
    await configure(api, "b", ["A", count.replace("seen", "once")])
    await configure(api, "c", ["A", "Object{data: {'more': 'x'}}"])
    created = await api.ok("POST", CONFIG_MAPS, config_map("x", a="1"))
    assert created["metadata"]["labels"] == {"seen": "2", "once": "1"}


async def test_effective_at_once_and_in_one_cluster(api: Api) -> None:
    """A policy changes the first write after its answer, only what it selects, and nothing in other clusters."""
    await configure(api, "p", ["A", "Object{data: {'b': 'c'}}"])
    assert (await api.ok("POST", CONFIG_MAPS, config_map("x")))["data"] == {"b": "c"}
    assert "data" not in await api.ok("POST", CONFIG_MAPS.replace("/a/", "/b/"), config_map("x"))
    merge = {"Content-Type": "application/merge-patch+json"}
    patched = await api.ok("PATCH", f"{CONFIG_MAPS}/x", {"data": {"b": "d"}}, headers=merge)
    assert patched["data"] == {"b": "d"}, "the rule selects creates alone"
    await api.ok("DELETE", f"{BINDINGS}/p")
    assert "data" not in await api.ok("POST", CONFIG_MAPS, config_map("y"))


async def test_validation_sees_the_result(api: Api) -> None:
    """The result of a mutation is validated, and mutations keep the name of the object."""
    await configure(api, "p", ["J", "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'not valid!': 'x'}}]"])
    status = await api.fails(422, "POST", CONFIG_MAPS, config_map("x"))
    assert 'metadata.labels: Invalid value: "not valid!"' in status["message"]
    await api.ok("DELETE", f"{BINDINGS}/p")
    await configure(api, "q", ["J", "[JSONPatch{op: 'replace', path: '/metadata/name', value: 'other'}]"])
    status = await api.fails(500, "POST", CONFIG_MAPS, config_map("x"))
    assert status["message"].endswith("admission plugin MutatingAdmissionPolicy changed the name or the namespace of the object")


async def test_fields_that_the_kind_does_not_have(api: Api) -> None:
    """A JSON patch that adds an unknown field adds nothing. kube-apiserver answers with 500."""
    await configure(api, "p", ["J", "[JSONPatch{op: 'add', path: '/nope', value: 'x'}]"])
    assert "nope" not in await api.ok("POST", CONFIG_MAPS, config_map("x"))


async def test_metrics(api: Api) -> None:
    """Mutations are counted by upstream's types of errors."""
    await configure(api, "p", ["A", "Object{data: {'a': object.data.k}}"])
    await api.ok("POST", CONFIG_MAPS, config_map("x", k="1"))
    await api.ok("POST", CONFIG_MAPS, config_map("y", k="1"))
    await api.fails(403, "POST", CONFIG_MAPS, config_map("z", other="1"))
    name = "apiserver_mutating_admission_policy_check_total"
    lines = (await api("GET", "/metrics")).text.splitlines()
    assert [line for line in lines if line.startswith(name)] == [
        f'{name}{{error_type="no_error"}} 2.0',
        f'{name}{{error_type="invalid_error"}} 1.0',
    ]
