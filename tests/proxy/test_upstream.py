"""The API server behind the proxy: credentials that fail, and servers behind proxies of HTTP."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kcp_py.proxy.upstream import UnreachableError, Upstream
from tests.proxy.conftest import World
from tests.proxy.scripted import Scripted, scripted

pytestmark = pytest.mark.anyio


async def test_credentials_that_cannot_be_used(tmp_path: Path) -> None:
    """A program that gives none is a failure of the server's side. Clients do not learn its command."""
    async with scripted() as server:
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(tmp_path / "missing"), "interactiveMode": "Never"}
        context = replace(server.context, user={"exec": plugin})
        upstream = Upstream(context)
        with pytest.raises(UnreachableError, match="the credentials of the proxy cannot be used"):
            await upstream.fetch("GET", b"/api/v1/configmaps", own=True)
        with pytest.raises(UnreachableError, match="the credentials of the proxy cannot be used"):
            await upstream.connect(own=True)
        assert (await upstream.fetch("GET", b"/api/v1/configmaps", own=False)).status == 200
        await upstream.aclose()
        async with World(tmp_path).proxy(context, share_credentials=True) as proxied:
            answer = await proxied.client.get(
                "/api/v1/configmaps", headers={"Authorization": "Bearer mine"}, params={"resourceVersion": "0"}
            )
            assert answer.status_code == 200
            del proxied.client.headers["Authorization"]
            answer = await proxied.client.get("/api/v1/configmaps")
            assert (answer.status_code, "missing" in answer.text) == (503, False), answer.text


class ForwardProxy:
    """A proxy of HTTP that wants a password and connects to one server only."""

    def __init__(self, server: Scripted) -> None:
        self.server = server
        self.status = b"200 Connection established"
        self.heads: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 " + self.status + b"\r\n\r\n")
        else:
            first, _, rest = head.partition(b"\r\n")
            target_writer.write(first.replace(b"http://127.0.0.1:%d" % self.server.port, b"") + b"\r\n" + rest)
        await asyncio.gather(_copy(reader, target_writer), _copy(target_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def forwarding(server: Scripted) -> AsyncIterator[tuple[ForwardProxy, int]]:
    """The proxy runs within it, on a port. Clients close their connections before its end."""
    forward = ForwardProxy(server)
    listener = await asyncio.start_server(forward.serve, "127.0.0.1", 0)
    async with listener:
        yield forward, listener.sockets[0].getsockname()[1]
    await asyncio.gather(*forward.tasks)


async def test_servers_behind_a_proxy() -> None:
    """Requests and upgraded connections go through `proxy-url`, with its password."""
    async with scripted() as server, forwarding(server) as (forward, port):
        cluster = {**server.context.cluster, "proxy-url": f"http://user:pass%20word@127.0.0.1:{port}"}
        upstream = Upstream(replace(server.context, cluster=cluster))
        for own in (True, False):
            assert (await upstream.fetch("GET", b"/api/v1/configmaps", own=own)).status == 200
        reader, writer, _ = await upstream.connect(own=False)
        writer.write(b"GET /api/v1/configmaps HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()
        given = b"basic " + base64.b64encode(b"user:pass word")
        assert len(forward.heads) == 3
        for head in forward.heads:
            assert given.lower() in head.lower()
        assert forward.heads[2].startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % server.port)
        forward.status = b"407 Proxy Authentication Required"
        with pytest.raises(UnreachableError, match="407"):
            await upstream.connect(own=False)
        await upstream.aclose()
