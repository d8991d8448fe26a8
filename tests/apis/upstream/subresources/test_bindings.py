"""`bindings`, the older form of `pods/binding`; that one is compared with kube-apiserver by `test_answers_of_subresources`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

CORE = "/clusters/a/api/v1"
COLLECTION = f"{CORE}/namespaces/default/bindings"
TARGET = {"name": "n1"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server whose clusters have pods; two of them are in `a`."""
    settings = options(tmp_path, builtin_kinds=("pods",), disable_admission_plugins=("ServiceAccount",))
    async with ControlPlane(settings) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for name in ("p", "q"):
                pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                await api.ok("POST", f"{CORE}/namespaces/default/pods", pod)
            yield api


async def test_a_binding_assigns_the_pod_that_it_names(api: Api) -> None:
    """Once, with its labels; the uid of the binding is not a precondition, as in kube-apiserver 1.37."""
    listed = (await api.ok("GET", CORE))["resources"]
    (found,) = [one for one in listed if one["name"] == "bindings"]
    assert found == {"name": "bindings", "singularName": "binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]}
    binding = {"metadata": {"name": "p", "uid": "other", "labels": {"of": "binding"}}, "target": TARGET}
    tried = await api("POST", f"{COLLECTION}?dryRun=All", binding)
    assert tried.status_code == 201
    made = await api("POST", COLLECTION, binding)
    assert (made.status_code, made.json()) == (
        201,
        {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201},
    )
    pod = await api.ok("GET", f"{CORE}/namespaces/default/pods/p")
    assert (pod["spec"]["nodeName"], pod["metadata"]["labels"]) == ("n1", {"of": "binding"})
    again = await api("POST", COLLECTION, binding)
    message = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    assert (again.status_code, again.json()["message"]) == (409, message)


# Recorded from kube-apiserver 1.37.2.
@pytest.mark.parametrize(
    ("metadata", "target", "code", "message"),
    [
        pytest.param({"name": "none"}, TARGET, 404, 'pods "none" not found', id="no pod"),
        pytest.param({"name": "Q_"}, TARGET, 404, 'pods "Q_" not found', id="no name of a pod"),
        pytest.param({}, TARGET, 400, "Name parameter required.", id="no name"),
        pytest.param({"generateName": "q"}, TARGET, 400, "Name parameter required.", id="generated name"),
        pytest.param({"name": "q/log"}, TARGET, 400, "Name parameter invalid: \"q/log\": may not contain '/'", id="a path"),
        pytest.param({"name": "q"}, {}, 500, "target.name: Required value", id="no target"),
        pytest.param(
            {"name": "q"},
            {"kind": "Foo", "name": "n1"},
            500,
            'target.kind: Unsupported value: "Foo": supported values: "Node", "<empty>"',
            id="other kind",
        ),
        pytest.param(
            {"name": "q", "namespace": "other"},
            TARGET,
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="other namespace",
        ),
        pytest.param(
            {"name": 5},
            TARGET,
            400,
            'Binding in version "v1" cannot be handled as a Binding: '
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            id="number",
        ),
    ],
)
async def test_refused_bindings(api: Api, metadata: dict[str, Any], target: dict[str, str], code: int, message: str) -> None:
    """With the answer of kube-apiserver, and without an effect."""
    answer = await api("POST", COLLECTION, {"metadata": metadata, "target": target})
    assert (answer.status_code, answer.json()["message"]) == (code, message)
    assert "nodeName" not in (await api.ok("GET", f"{CORE}/namespaces/default/pods/q"))["spec"]


async def test_a_version_is_a_precondition(api: Api) -> None:
    """A binding for an older version of the pod is a conflict."""
    answer = await api("POST", COLLECTION, {"metadata": {"name": "q", "resourceVersion": "1"}, "target": TARGET})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


async def test_nothing_can_be_read(api: Api) -> None:
    """And one cluster has no effect on pods of another one."""
    assert [(await api(method, COLLECTION)).status_code for method in ("GET", "DELETE")] == [405, 405]
    assert (await api("GET", f"{COLLECTION}/p")).status_code == 404
    other = COLLECTION.replace("/clusters/a/", "/clusters/b/")
    assert (await api("POST", other, {"metadata": {"name": "p"}, "target": TARGET})).status_code == 404
