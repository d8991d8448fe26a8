"""A caching proxy whose API server is another server of this program, which counts what it is asked."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import kcp_py
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.options import Options
from kcp_py.proxy.application import CachingProxy, ProxySettings
from kcp_py.proxy.serving import serve_proxy
from tests.ports import reserve_port
from tests.serving.test_embedding import Running

ADMIN = {"Authorization": "Bearer admin"}
BOB = {"Authorization": "Bearer bob"}
CLUSTER = "/clusters/team-a"
MAPS = f"{CLUSTER}/api/v1/configmaps"
DEFAULT = f"{CLUSTER}/api/v1/namespaces/default/configmaps"
CACHED = {"resourceVersion": "0"}
PATIENCE = 60


def configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


class World:
    """An API server on a port of its own, and proxies in front of it.

    Attributes:
        asked: the requests that the API server has got, by verb and path.
        url: of the API server.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "users.csv").write_text('admin,admin,,"system:masters"\nbob,bob,b1,dev\ncarol,carol,c1,\n')
        self.port = reserve_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.options = self.options_in("server")
        self.asked: Counter[str] = Counter()
        self._server = AsyncExitStack()

    def options_in(self, root: str) -> Options:
        return Options(root_directory=self.folder / root, secure_port=self.port, token_auth_file=self.folder / "users.csv")

    def _count(self, handler: kcp_py.Handler) -> kcp_py.Handler:
        async def call(exchange: kcp_py.Exchange) -> None:
            self.asked[f"{exchange.context.info.verb} {exchange.path}"] += 1
            await handler(exchange)

        return call

    async def start(self) -> None:
        """Start the API server, again with the same store."""
        self.options.root_directory.mkdir(exist_ok=True)
        control_plane = kcp_py.ControlPlane(self.options, filters=[self._count])
        await self._server.enter_async_context(control_plane)
        await self._server.enter_async_context(Running(control_plane))

    async def stop(self) -> None:
        await self._server.aclose()

    def context(self, token: str = "admin") -> KubeconfigContext:
        """The context of a kubeconfig for the proxy."""
        path = self.folder / f"{token}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "server/pki/ca.crt")}
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(document))
        return KubeconfigContext.load(str(path), None)

    @asynccontextmanager
    async def proxy(self, context: KubeconfigContext | None = None, **settings: Any) -> AsyncIterator[Proxied]:
        """A proxy runs within it."""
        stop = asyncio.Event()
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        options = Options(root_directory=self.folder / "proxy", secure_port=0, plain_http=True, shutdown_grace_period=5)
        async with CachingProxy(context or self.context(), ProxySettings(**settings)) as proxy:
            task = asyncio.create_task(serve_proxy(proxy, options, on_ready=ready.set_result, stop=stop))
            async with httpx.AsyncClient(base_url=await ready, headers=ADMIN, timeout=PATIENCE) as client:
                yield Proxied(proxy, client)
            stop.set()
            await task


class Proxied:
    """A running proxy, and a client of it with the rights of the administrator."""

    def __init__(self, proxy: CachingProxy, client: httpx.AsyncClient) -> None:
        self.proxy, self.client = proxy, client

    async def names(self, path: str, headers: dict[str, str] | None = None, **query: str) -> list[str]:
        """The names in a list that the cache may answer."""
        answer = await self.client.get(path, params={**CACHED, **query}, headers=headers)
        assert answer.status_code == 200, answer.text
        return [item["metadata"]["name"] for item in answer.json()["items"]]

    async def create(self, *documents: dict[str, Any], path: str = DEFAULT) -> list[dict[str, Any]]:
        found = []
        for document in documents:
            answer = await self.client.post(path, json=document)
            assert answer.status_code == 201, answer.text
            found.append(answer.json())
        return found

    @asynccontextmanager
    async def watching(self, path: str, headers: dict[str, str] | None = None, **query: str) -> AsyncIterator[Watching]:
        """A watch runs within it."""
        request = self.client.stream("GET", path, params={"watch": "true", **query}, headers=headers)
        async with request as response:
            assert response.status_code == 200, await response.aread()
            yield Watching(response.aiter_lines())


class Watching:
    """The events of one watch."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self, count: int = 1) -> list[tuple[str, str]]:
        """Types and names of the next events."""
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in await self.events(count)]

    async def events(self, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(PATIENCE):
            return [json.loads(await anext(self._lines)) for _ in range(count)]

    async def rest(self) -> list[dict[str, Any]]:
        """All events until the end of the watch."""
        async with asyncio.timeout(PATIENCE):
            return [json.loads(line) async for line in self._lines]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The API server runs."""
    made = World(tmp_path)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
