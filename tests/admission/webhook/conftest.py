"""Webhooks of tenants: real HTTPS servers that answer reviews, and a control plane that may call them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.controlplane import ControlPlane
from tests.egress.https import Certificate, HttpsServer, Request, http, issue
from tests.server.handlers.conftest import Api, options

GROUP = "/clusters/{}/apis/admissionregistration.k8s.io/v1/"
MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
RULES = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


def json_patch(*operations: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an answer that changes the object."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


class Hooks:
    """An HTTPS server with one webhook for each path. A path without an answer allows everything."""

    def __init__(self, certificate: Certificate) -> None:
        self.answers: dict[str, Mapping[str, Any]] = {}
        """Path -> what the response says besides `uid` and `allowed`, which is true unless it says otherwise."""
        self.raw: dict[str, tuple[int, Any]] = {}
        """Path -> status and body, in which the text `UID` stands for the uid of the request."""
        self.blocked: dict[str, asyncio.Event] = {}
        """Path -> what the answer waits for."""
        self.server = HttpsServer(certificate, self._respond)

    async def _respond(self, request: Request) -> bytes:
        path = request.target.partition("?")[0]
        review = request.json()
        if path in self.blocked:
            await self.blocked[path].wait()
        uid = review["request"]["uid"]
        if path in self.raw:
            status, body = self.raw[path]
            content = body.encode() if isinstance(body, str) else orjson.dumps(body)
            return http(status, content.replace(b"UID", uid.encode()))
        response = {"uid": uid, "allowed": True, **self.answers.get(path, {})}
        return http(200, orjson.dumps({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}))

    def asked(self, path: str = "") -> list[dict[str, Any]]:
        """The requests of the reviews that came, of one webhook or of all."""
        return [one.json()["request"] for one in self.server.requests if not path or one.target.startswith(f"{path}?")]

    def webhook(self, path: str, **more: Any) -> dict[str, Any]:
        """A webhook as a configuration has it. Fields that are given as None are left out."""
        client = {"url": f"{self.server.origin}{path}", "caBundle": self.server.certificate.bundle}
        name = f"{path.strip('/') or 'none'}.example.com"
        whole = {
            "name": name,
            "clientConfig": client,
            "rules": RULES,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
            **more,
        }
        return {field: value for field, value in whole.items() if value is not None}


async def configure(api: Api, kind: str, *webhooks: Mapping[str, Any], name: str = "c", cluster: str = "a") -> dict[str, Any]:
    """Create a configuration. `kind`: `mutating` or `validating`."""
    body = {"metadata": {"name": name}, "webhooks": list(webhooks)}
    created: dict[str, Any] = await api.ok("POST", f"{GROUP.format(cluster)}{kind}webhookconfigurations", body)
    return created


def config_map(name: str = "x", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"a": "b"}}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return issue(tmp_path_factory.mktemp("pki"), "127.0.0.1")


@pytest.fixture
async def hooks(certificate: Certificate) -> AsyncIterator[Hooks]:
    found = Hooks(certificate)
    async with found.server:
        yield found


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane that may call webhooks of this machine."""
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(options(tmp_path, webhook_networks=("127.0.0.0/8",))))
        transport = httpx.ASGITransport(control_plane.app)
        yield Api(await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="https://kcp.test")), control_plane)
