"""A whole control plane in memory, reached over ASGI: everything but the network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options

ADMIN = "Bearer secret"


class Api:
    """HTTP requests of one user to a control plane."""

    def __init__(self, client: httpx.AsyncClient, control_plane: ControlPlane) -> None:
        self._client = client
        self.control_plane = control_plane

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        token: str = ADMIN,
    ) -> httpx.Response:
        sent = {"Authorization": token, **(headers or {})} if token else dict(headers or {})
        return await self._client.request(method, path, json=body, content=content, headers=sent, params=params)

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The decoded body of a request that has to succeed."""
        response = await self(method, path, body, **more)
        assert response.status_code < 300, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def fails(self, code: int, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The Status of a request that has to fail."""
        response = await self(method, path, body, **more)
        assert response.status_code == code, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()


def options(root: Path, **more: Any) -> Options:
    """Settings of a server in memory whose administrator's token is known."""
    (root / "admin-tokens.csv").write_text('secret,shard-admin,1,"system:masters"\nuser,jane,2,"team"\n')
    return Options(root_directory=root, storage="memory", **more)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a fresh control plane."""
    async with ControlPlane(options(tmp_path)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def config_map(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": dict(data or {})}


def definition(
    plural: str = "widgets", group: str = "example.com", schema: Mapping[str, Any] | None = None, **version: Any
) -> dict[str, Any]:
    """A CRD with one version, `v1`, and a status."""
    singular = plural.removesuffix("s")
    root = schema or {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": singular.capitalize(), "listKind": f"{singular.capitalize()}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": root},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }
