"""The end of a transport, step by step, on a socket whose other end is a client."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kcp_py.serving.http1.closing import LINGER_SECONDS
from kcp_py.serving.records import Buffer
from kcp_py.serving.transportclosing import TransportClosing

pytestmark = pytest.mark.anyio


class Lost(asyncio.Protocol):
    """Waits for the end of a connection."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set()


@pytest.fixture
async def connected():
    """A transport, its protocol and the client's socket."""
    ours, client = socket.socketpair()
    client.settimeout(30)
    transport, protocol = await asyncio.get_running_loop().create_connection(Lost, sock=ours)
    with client:
        yield transport, protocol, client
        transport.abort()


async def test_a_client_reads_the_response_before_the_end(connected):
    """The client sees the end of the response at once; the transport is closed when the time to linger is over."""
    transport, protocol, client = connected
    closing = TransportClosing(transport, Buffer())
    transport.write(b"response")
    closing.linger(100.0)
    assert closing.deadline == 100.0 + LINGER_SECONDS
    assert await asyncio.to_thread(read_all, client) == b"response"
    closing.step(100.0)
    assert not transport.is_closing()
    closing.step(closing.deadline)
    assert transport.is_closing()
    await protocol.lost.wait()


async def test_a_client_that_does_not_read_is_cut_off(connected):
    """When the server stops, a response whose client reads nothing is given up after some looks."""
    transport, protocol, _ = connected
    closing = TransportClosing(transport, Buffer())
    transport.write(b"x" * 10_000_000)
    closing.flush(0.0)
    steps = 0
    while closing.deadline is not None:
        closing.step(closing.deadline)
        steps += 1
    assert steps > 2
    await protocol.lost.wait()


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(4096), b""))
