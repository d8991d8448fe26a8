"""Requests for connections: what admission sees of them, and what they leave alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery import errors
from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.server.handlers.connect import options_document
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

PODS = "/clusters/a/api/v1/namespaces/default/pods"


class Recorder(AdmissionPlugin):
    """Notes connections, and refuses those with a terminal."""

    name = "Recorder"
    operations: Collection[Operation] = frozenset[Operation](("CONNECT",))

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []

    def validate(self, attributes: Attributes) -> None:
        self.seen.append((attributes.name, attributes.subresource, attributes.obj))
        if (attributes.obj or {}).get("tty"):
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "no terminals")


@asynccontextmanager
async def serving(settings: Options, admission: Sequence[AdmissionPlugin] = ()) -> AsyncIterator[Api]:
    """A server."""
    async with (
        ControlPlane(settings, admission=admission) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def test_admission_sees_connections_but_no_reads_of_logs(tmp_path: Path) -> None:
    """With the operation CONNECT and the options as the object, before the pod is looked for."""
    recorder = Recorder()
    settings = options(tmp_path, builtin_kinds=("pods", "nodes"))
    async with serving(settings, admission=[recorder]) as api:
        answer = await api("POST", f"{PODS}/one/exec?command=ls&command=-l&stdin=true&tty=true&container=a")
        assert (answer.status_code, answer.json()["message"]) == (403, 'pods "one" is forbidden: no terminals')
        assert (await api("GET", f"{PODS}/one/portforward?ports=80&ports=81")).status_code == 404
        assert (await api("GET", f"{PODS}/one/log")).status_code == 404
        assert (await api("DELETE", "/clusters/a/api/v1/nodes/none/proxy/stats/x")).status_code == 404
    assert recorder.seen == [
        (
            "one",
            "exec",
            {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["ls", "-l"], "stdin": True, "tty": True, "container": "a"},
        ),
        ("one", "portforward", {"apiVersion": "v1", "kind": "PodPortForwardOptions", "ports": [80, 81]}),
        ("none", "proxy", {"apiVersion": "v1", "kind": "NodeProxyOptions", "path": "/stats/x"}),
    ]


def test_options_are_documents_of_their_kinds() -> None:
    """Of the types that webhooks expect; false and unknown values are missing."""
    query = {"stdout": ["true"], "stderr": ["false"], "tty": ["0"], "other": ["1"], "command": ["a b"]}
    assert options_document("v1", "PodAttachOptions", query) == {
        "apiVersion": "v1",
        "kind": "PodAttachOptions",
        "stdout": True,
        "command": ["a b"],
    }


async def test_kinds_of_connections_are_discovered(tmp_path: Path) -> None:
    """With the kinds, groups and verbs of upstream."""
    async with serving(options(tmp_path, builtin_kinds=("pods", "services", "nodes"))) as api:
        found = {one["name"]: one for one in (await api.ok("GET", "/clusters/a/api/v1"))["resources"]}
        assert (await api("GET", "/clusters/a/openapi/v2")).status_code == 200
        assert (await api("GET", "/clusters/a/openapi/v3/api/v1")).status_code == 200
    pods = {name.partition("/")[2]: (one["kind"], one["verbs"]) for name, one in found.items() if name.startswith("pods/")}
    changed, streamed, all_verbs = ["get", "patch", "update"], ["create", "get"], ["create", "delete", "get", "patch", "update"]
    assert pods == {
        "status": ("Pod", changed),
        "attach": ("PodAttachOptions", streamed),
        "binding": ("Binding", ["create"]),
        "ephemeralcontainers": ("Pod", changed),
        "eviction": ("Eviction", ["create"]),
        "exec": ("PodExecOptions", streamed),
        "log": ("Pod", ["get"]),
        "portforward": ("PodPortForwardOptions", streamed),
        "proxy": ("PodProxyOptions", all_verbs),
        "resize": ("Pod", changed),
    }
    assert (found["pods/eviction"]["group"], found["pods/eviction"]["version"]) == ("policy", "v1")
    assert "group" not in found["pods/exec"]
    assert (found["nodes/proxy"]["kind"], found["services/proxy"]["kind"]) == ("NodeProxyOptions", "ServiceProxyOptions")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_addresses_of_tenants_are_not_connected_to(tmp_path: Path, method: str) -> None:
    """Whatever a tenant writes into the status of pods and nodes: 501."""
    async with serving(options(tmp_path, builtin_kinds=("pods", "nodes"))) as api:
        status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
        await api.ok("POST", "/clusters/a/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
        answer = await api(method, "/clusters/a/api/v1/nodes/n/proxy/x")
        assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")
