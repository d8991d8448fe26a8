"""What is decrypted of requests that are refused, and that others arrive whole, with real clients over TLS on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import weakref
from typing import Any

import pytest

from kcp_py.cli.intake import DRAIN_BYTES
from kcp_py.cli.protocol import Connection
from kcp_py.cli.records import DISCARDED_BYTES, RECORD_BYTES
from kcp_py.cli.tls import ReloadingContext

pytestmark = pytest.mark.anyio

BODY = b"0123456789abcdef" * 160_000
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
NEXT = b"GET /next HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
PIECE = 64 * 1024
UPGRADE = (
    b"GET /?watch=1 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)
SECONDS = 30


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request):
    """Both event loops that the server runs on."""
    return "asyncio", {"use_uvloop": request.param}


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
            self.connections.append(weakref.ref(scope["state"]["on_disconnect"].__self__))
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


@pytest.fixture
async def served(certified, serving, client_context):
    """The application, and a function that connects to it."""
    Counted.decrypted = 0
    server = Server()
    tls = ReloadingContext(certified).context
    tls.sslobject_class = Counted
    context = client_context(certified)
    async with serving(server, certified, tls=tls) as port:

        def connect():
            connection = socket.create_connection(("127.0.0.1", port), SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(connection, server_hostname="127.0.0.1")

        yield server, connect


def post(path, *fields):
    return b"".join([b"POST " + path + b" HTTP/1.1\r\nhost: x\r\n", *(field + b"\r\n" for field in fields), b"\r\n"])


def exchange(connect, *parts):
    """Send everything, whether the server answers or not, and then read all answers."""
    with connect() as connection:
        # The server may end the connection before the last part.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for part in parts:
                view = memoryview(part)
                for start in range(0, len(view), PIECE):
                    connection.sendall(view[start : start + PIECE])
        return answers(connection)


def answers(connection):
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(PIECE):
            found += part
    return found


@pytest.mark.parametrize(
    ("parts", "most"),
    [
        pytest.param((post(b"/refuse", b"content-length: %d" % len(BODY)) + BODY,), RECORD_BYTES, id="a length, in one piece"),
        pytest.param((post(b"/refuse", b"content-length: %d" % len(BODY)), BODY), 2 * RECORD_BYTES, id="a length, head first"),
        pytest.param(
            (post(b"/refuse", b"transfer-encoding: chunked") + CHUNK * 40 + b"0\r\n\r\n",), 2 * RECORD_BYTES, id="chunks, in one piece"
        ),
        pytest.param(
            (post(b"/refuse", b"transfer-encoding: chunked"), CHUNK * 40 + b"0\r\n\r\n"),
            DRAIN_BYTES + 2 * RECORD_BYTES,
            id="chunks, head first",
        ),
    ],
)
async def test_a_body_that_is_not_wanted_is_not_decrypted(served, parts, most):
    """Of a large body of a request that is refused for its head, little is decrypted, and a client that sends all of it has its answer."""
    _, connect = served
    answer = await asyncio.to_thread(exchange, connect, *parts)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"no")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert 0 < Counted.decrypted <= most


async def test_a_client_that_does_not_expect_an_early_answer_has_it(served):
    """One that gives up where it cannot send all of its request can send it."""
    _, connect = served

    def send_then_read():
        with connect() as connection:
            connection.sendall(post(b"/refuse", b"content-length: %d" % len(BODY * 3)))
            connection.sendall(BODY * 3)
            return answers(connection)

    answer = await asyncio.to_thread(send_then_read)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"no")
    assert Counted.decrypted <= 2 * RECORD_BYTES


@pytest.mark.parametrize("piece", [1000, 70_000, len(BODY)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_wanted_arrives_whole(served, piece, chunked):
    """However it is cut into records, and the request behind it, too."""
    server, connect = served
    pieces = [BODY[start : start + piece] for start in range(0, len(BODY), piece)]
    if chunked:
        parts = [post(b"/", b"transfer-encoding: chunked"), *(b"%x\r\n%s\r\n" % (len(part), part) for part in pieces), b"0\r\n\r\n" + NEXT]
    else:
        parts = [post(b"/", b"content-length: %d" % len(BODY)), *pieces, NEXT]
    answer = await asyncio.to_thread(exchange, connect, *parts)
    assert b"\r\n\r\n%d cdefHTTP/1.1 200 " % len(BODY) in answer
    assert answer.endswith(b"\r\n\r\n0 ")
    assert server.paths == ["/", "/next"]


async def test_pipelined_requests_are_all_answered(served):
    """Of many requests in one record, and many records in one packet, none is left lying."""
    server, connect = served
    requests = [post(b"/%d" % number, b"content-length: 5000") + b"x" * 5000 for number in range(200)]
    answer = await asyncio.to_thread(exchange, connect, b"".join(requests) + NEXT)
    assert answer.count(b"\r\n\r\n5000 xxxx") == 200
    assert server.paths == [*(f"/{number}" for number in range(200)), "/next"]


async def test_a_body_waits_for_100_continue(served):
    """The client sends it when it is asked for."""
    _, connect = served

    def talk():
        with connect() as connection:
            connection.sendall(post(b"/", b"content-length: %d" % len(BODY), b"expect: 100-continue", b"connection: close"))
            first = connection.recv(PIECE)
            connection.sendall(BODY)
            return first, answers(connection)

    first, answer = await asyncio.to_thread(talk)
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.endswith(b"%d cdef" % len(BODY))


async def test_a_connection_is_freed_with_its_end(served):
    """By its last reference, with what it has received."""
    server, connect = served
    gc.collect()
    gc.disable()
    try:
        assert (await asyncio.to_thread(exchange, connect, post(b"/released", b"connection: close"))).endswith(b"0 ")
        (connection,) = server.connections
        async with asyncio.timeout(SECONDS):
            while connection() is not None:
                assert isinstance(connection(), Connection)
                await asyncio.sleep(0)
    finally:
        gc.enable()


async def test_a_websocket_holds_no_http_connection(served):
    """What the HTTP protocol has received is freed once another protocol has the connection."""
    server, connect = served
    with await asyncio.to_thread(connect) as client:
        gc.collect()
        gc.disable()
        try:
            client.sendall(UPGRADE)
            async with asyncio.timeout(SECONDS):
                await server.connected.wait()
            assert not [found for found in gc.get_objects() if isinstance(found, Connection)]
        finally:
            gc.enable()
            server.release.set()
        assert (await asyncio.to_thread(client.recv, PIECE)).startswith(b"HTTP/1.1 403 ")


async def test_a_client_that_sends_on_and_on_is_cut_off(served):
    """What is thrown away has an end, too."""
    _, connect = served

    def pour():
        with connect() as connection:
            connection.sendall(post(b"/refuse", b"transfer-encoding: chunked"))
            for sent in range(2000):
                try:
                    connection.sendall(CHUNK)
                except (ConnectionError, ssl.SSLError):
                    return sent * len(CHUNK)
        return None

    sent = await asyncio.to_thread(pour)
    # The rest lies in the buffers of the two systems.
    assert sent is not None
    assert sent < DISCARDED_BYTES + 32 * 1024 * 1024
    assert Counted.decrypted <= DRAIN_BYTES + 2 * RECORD_BYTES
