"""Clients over TLS that send whatever they like, and the application that they meet, for the tests of how connections are read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import weakref
from typing import Any

import pytest

from kcp_py.serving.http1 import closing
from kcp_py.serving.tls import ReloadingContext

BODY = b"0123456789abcdef" * 160_000
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
PIECE = 64 * 1024
SECONDS = 30
EVENT_LOOPS = [pytest.param(("asyncio", {"use_uvloop": uvloop}), id="uvloop" if uvloop else "asyncio") for uvloop in (True, False)]
"""Values of `anyio_backend`: both event loops that the server runs on."""


class Counted(ssl.SSLObject):
    """The server's end of TLS, which counts what it decrypts."""

    decrypted = 0

    def read(self, *arguments):
        found: Any = super().read(*arguments)
        # With a buffer it returns a count.
        Counted.decrypted += found if isinstance(found, int) else len(found)
        return found


class Server:
    """`/refuse` is answered with 403 before anything is read, others with 200, the length and the end of the body; a WebSocket is held."""

    def __init__(self):
        self.paths = []
        self.connections = []
        self.connected = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            self.connected.set()
            await self.release.wait()
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            return
        self.paths.append(scope["path"])
        if scope["path"] == "/refuse":
            await self._answer(send, 403, b"no")
            return
        if scope["path"] == "/released":
            self.connections.append(weakref.ref(receive.__self__._connection))
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        await self._answer(send, 200, b"%d %s" % (len(body), bytes(body[-4:])))

    async def _answer(self, send, status, body):
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def serving_clients(options, serving, context):
    """The application, and a function that connects to it with a context of clients."""
    Counted.decrypted = 0
    server = Server()
    tls = ReloadingContext(options).context
    tls.sslobject_class = type("CountedEnd", (Counted, tls.sslobject_class), {})
    async with serving(server, options, tls=tls) as port:

        def connect():
            connection = socket.create_connection(("127.0.0.1", port), SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(connection, server_hostname="127.0.0.1")

        yield server, connect


def post(path, *fields):
    return b"".join([b"POST " + path + b" HTTP/1.1\r\nhost: x\r\n", *(field + b"\r\n" for field in fields), b"\r\n"])


def exchange(connect, *parts, last=None):
    """Send everything, whether the server answers or not, and then read all answers; `last` as for `answers`."""
    with connect() as connection:
        # The server may end the connection before the last part.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for part in parts:
                view = memoryview(part)
                for start in range(0, len(view), PIECE):
                    connection.sendall(view[start : start + PIECE])
        return answers(connection, last=last)


def answers(connection, *, last=None):
    """All that comes until the server ends the connection.

    Args:
        connection: of a client.
        last: the end of the last answer. There the client ends its side, for which a server waits that has not read all of a request.
    """
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(PIECE):
            found += part
            if last is not None and found.endswith(last):
                # Below TLS, which goes on to read.
                with socket.socket(fileno=os.dup(connection.fileno())) as lower:
                    lower.shutdown(socket.SHUT_WR)
    return found


@pytest.fixture
def patient(monkeypatch):
    """A server that reads the rest of a refused request for as long as its client sends, however slow that is."""
    monkeypatch.setattr(closing, "DISCARD_SECONDS", 3600.0)
