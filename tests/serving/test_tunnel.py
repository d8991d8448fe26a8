"""Connections that an application takes over."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from kcp_py.serving.tls import ReloadingContext

pytestmark = pytest.mark.anyio
HEAD = b"GET /x HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n"


class Echo:
    """Answers upgrades with what it reads, in capitals, and fails for the word `fail`."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, _scope, _receive, send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def tunnel(self, tunnel) -> None:
        self.paths.append(tunnel.scope["path"])
        await tunnel.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        while data := await tunnel.read():
            if data == b"fail":
                raise RuntimeError("a fault of the application")
            await tunnel.write(data.upper())
        await tunnel.write(b"END")


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_bytes_go_both_ways(certified, serving, *, secure: bool) -> None:
    """Bytes behind the head belong to the tunnel; requests without an upgrade do not; a fault ends the connection alone."""
    app = Echo()
    tls = ReloadingContext(certified).context if secure else None
    context = ssl.create_default_context(cafile=certified.ca_file) if secure else None
    async with serving(app, certified, tls=tls) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(HEAD + b"behind")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
        assert await reader.readexactly(6) == b"BEHIND"
        large = b"a" * 3_000_000
        sending = asyncio.create_task(_send(writer, large))
        assert await reader.readexactly(len(large)) == large.upper()
        await sending
        if not secure:
            writer.write_eof()
            assert await reader.read() == b"END"
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(HEAD + b"fail")
        assert (await reader.read()).endswith(b"\r\n\r\n")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET /y HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 204")
        writer.close()
    assert app.paths == ["/x", "/x"]


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
