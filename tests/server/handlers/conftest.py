"""A whole control plane in memory, reached over ASGI: everything but the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from starlette.types import Message

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
        headers: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        token: str = ADMIN,
    ) -> httpx.Response:
        sent = httpx.Headers({"Authorization": token} if token else {})
        # A mapping replaces the token; the pairs of a sequence may repeat a name.
        if isinstance(headers, Mapping):
            sent.update(headers)
        else:
            sent = httpx.Headers([*sent.items(), *(headers or ())])
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


class Watch:
    """A watch over ASGI: its events come as they are sent."""

    def __init__(self, api: Api, path: str, headers: Mapping[str, str] | None = None, **params: str) -> None:
        self.control_plane = api.control_plane
        raw = [(name.lower().encode(), value.encode()) for name, value in {"Authorization": ADMIN, **(headers or {})}.items()]
        query = "&".join(f"{name}={value}" for name, value in {"watch": "true", **params}.items())
        self._scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "https",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": raw, "state": {},
        }  # fmt: skip
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._gone = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._buffer = b""
        self.started: Message = {}

    async def __aenter__(self) -> Self:
        async def receive() -> Message:
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.sent(message)

        self.task = asyncio.ensure_future(self.control_plane.app(self._scope, receive, send))
        self.started = await self._messages.get()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._gone.set()
        assert self.task is not None
        await asyncio.wait_for(self.task, 60)

    def sent(self, message: Message) -> None:
        """Called with what the server sends."""
        self._messages.put_nowait(message)

    async def next(self) -> dict[str, Any] | None:
        """The next event; None at the end of the stream."""
        while b"\n" not in self._buffer:
            message = await asyncio.wait_for(self._messages.get(), 60)
            self._buffer += message.get("body", b"")
            if not message.get("more_body", False) and b"\n" not in self._buffer:
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    async def brief(self) -> tuple[str, str]:
        """Type and name of the next event."""
        event = await self.next()
        assert event is not None
        return event["type"], event["object"]["metadata"].get("name", "")


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


def make_crd(
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


async def established(api: Api, cluster: str, name: str = "widgets.example.com") -> None:
    """Wait, without a clock, until a CRD is established. From the moment that clients can see this, its resource answers."""
    plural, _, group = name.partition(".")
    async with asyncio.timeout(30):
        while True:
            found = await api.ok("GET", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any((condition["type"], condition["status"]) == ("Established", "True") for condition in conditions):
                break
            await asyncio.sleep(0)
    base = "/api" if group == "core" else f"/apis/{group}"
    version = next(version["name"] for version in found["spec"]["versions"] if version["served"])
    assert (await api("GET", f"/clusters/{cluster}{base}/{version}/{plural}")).status_code == 200


def instance(name: str, group: str = "example.com", **more: Any) -> dict[str, Any]:
    """An object of the CRD that `make_crd` makes."""
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, **more}
