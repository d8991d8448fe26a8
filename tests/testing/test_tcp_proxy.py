"""The proxy passes bytes on, and fails as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from kcp_py.testing.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio

_LIMIT = 30


class Target:
    """Answers with what it gets, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(100):
                self.heard += data
                self.changed.set()
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()


class Client:
    """One connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, proxy: TcpProxy) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.port))

    def say(self, text: bytes) -> None:
        self.writer.write(text)

    async def hear(self, count: int) -> bytes:
        async with asyncio.timeout(_LIMIT):
            return await self._reader.readexactly(count)

    async def is_reset(self) -> bool:
        try:
            async with asyncio.timeout(_LIMIT):
                assert await self._reader.read(1) == b""
        except ConnectionResetError:
            return True
        finally:
            await self.close()
        return False

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
async def proxy(target: Target) -> AsyncIterator[TcpProxy]:
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    proxy = TcpProxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    yield proxy
    await proxy.stop()
    server.close()


async def test_cut(proxy: TcpProxy) -> None:
    """A cut resets the connections and serves the next one."""
    client = await Client.connect(proxy)
    client.say(b"one")
    assert await client.hear(3) == b"one"
    proxy.cut()
    assert await client.is_reset()
    client = await Client.connect(proxy)
    client.say(b"two")
    assert await client.hear(3) == b"two"
    assert proxy.connections == 2
    await client.close()


async def test_refuse(proxy: TcpProxy) -> None:
    """While it refuses, new connections are reset as well."""
    client = await Client.connect(proxy)
    client.say(b"one")
    assert await client.hear(3) == b"one"
    proxy.refuse()
    for refused in (client, await Client.connect(proxy)):
        assert await refused.is_reset()
    proxy.resume()
    client = await Client.connect(proxy)
    client.say(b"two")
    assert await client.hear(3) == b"two"
    await client.close()


async def test_hold(proxy: TcpProxy, target: Target) -> None:
    """Held bytes arrive completely after `resume`."""
    client = await Client.connect(proxy)
    client.say(b"one")
    assert await client.hear(3) == b"one"
    proxy.hold()
    client.say(b"two")
    late = await Client.connect(proxy)
    late.say(b"new")
    while proxy.connections < 2:
        await asyncio.sleep(0)
    assert target.heard == b"one"
    proxy.resume()
    assert (await client.hear(3), await late.hear(3)) == (b"two", b"new")
    for one in (client, late):
        await one.close()


async def test_stall(proxy: TcpProxy, target: Target) -> None:
    """Dropped bytes never arrive, and `resume` resets their connection."""
    client = await Client.connect(proxy)
    client.say(b"one")
    assert await client.hear(3) == b"one"
    proxy.stall()
    client.say(b"two")
    await client.writer.drain()
    proxy.resume()
    assert await client.is_reset()
    client = await Client.connect(proxy)
    client.say(b"three")
    assert await client.hear(5) == b"three"
    assert target.heard == b"onethree"
    await client.close()


async def test_lost_reply(proxy: TcpProxy, target: Target) -> None:
    """The chosen request arrives, and its answer does not."""
    client = await Client.connect(proxy)
    proxy.lose_reply(b"marked")
    client.say(b"marked")
    await asyncio.wait_for(proxy.reply_lost.wait(), _LIMIT)
    await asyncio.wait_for(target.changed.wait(), _LIMIT)
    proxy.cut()
    assert await client.is_reset()
    assert target.heard == b"marked"


async def test_cut_after_so_many_bytes(proxy: TcpProxy) -> None:
    """A connection with a limit ends before the answer that exceeds it."""
    proxy.cuts_after = [4]
    client = await Client.connect(proxy)
    client.say(b"one")
    assert await client.hear(3) == b"one"
    client.say(b"two")
    await client.is_reset()
    client = await Client.connect(proxy)
    client.say(b"no limit")
    assert await client.hear(8) == b"no limit"
    await client.close()
