"""The data about the connection for the application, and the limits on request heads."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import socket
import weakref
from typing import Any

import pytest
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from kcp_py.serving.connection import BUFFERED_BYTES, Connection
from kcp_py.serving.context import ServerContext
from kcp_py.serving.deadlinetimer import NEVER
from kcp_py.serving.http1.limits import DRAIN_BYTES, ReadLimits

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Recorder:
    """Answers every request at once, or, to /hold, when `release` is set; records what it sees."""

    def __init__(self):
        self.events: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.seen = asyncio.Event()
        self.gone = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, scope, _receive, send):
        if scope["type"] != "http":
            return
        self.requests.append(scope)
        if scope["path"] == "/hold":
            scope["state"]["on_disconnect"](self._lost)
            self.seen.set()
            await self.release.wait()
            scope["state"]["on_disconnect"](lambda: self.events.append("late"))
        elif scope["path"] == "/register-and-take-back":
            scope["state"]["on_disconnect"](self._lost)()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def _lost(self):
        self.events.append("lost")
        self.gone.set()


class Written(asyncio.Transport):
    """A transport that only records."""

    def __init__(self, written):
        super().__init__()
        self._written = written

    def get_extra_info(self, name, default=None):
        del name
        return default

    def write(self, data):
        self._written.append(data)

    def can_write_eof(self):
        return True

    def write_eof(self):
        self._written.append(b"end")

    def close(self):
        self._written.append(b"closed")

    def abort(self):
        self._written.append(b"aborted")

    def is_closing(self):
        return b"closed" in self._written

    def pause_reading(self):
        self._written.append(b"paused")

    def resume_reading(self):
        self._written.append(b"resumed")

    def get_write_buffer_size(self):
        return 0


async def connect(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    return head.decode(), await reader.readexactly(2)


@pytest.fixture
def plain(options):
    return dataclasses.replace(options, plain_http=True)


@pytest.mark.anyio
async def test_heads_of_answers(plain, serving):
    """An answer has a date and does not name the server software."""
    async with serving(Recorder(), plain) as port:
        reader, writer = await connect(port)
        writer.write(REQUEST)
        head, _ = await answer(reader)
        assert "\r\ndate: " in head
        assert "\r\nserver:" not in head.lower()
        writer.close()


@pytest.mark.anyio
async def test_plain_connections_have_no_certificate(plain, serving):
    """Without TLS the state has the key with None."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        writer.write(REQUEST)
        await answer(reader)
        writer.close()
    assert app.requests[0]["state"]["peer_certificate"] is None


@pytest.mark.anyio
async def test_a_lost_connection_is_told_at_once(plain, serving):
    """The registered function is called when the client goes, though the app never reads; one registered later is called too."""
    app = Recorder()
    async with serving(app, plain) as port:
        _, writer = await connect(port)
        writer.write(REQUEST.replace(b"/ ", b"/hold "))
        await app.seen.wait()
        writer.close()
        await app.gone.wait()
        app.release.set()
    assert app.events == ["lost", "late"]


class Sleeper:
    """Starts a stream that sends nothing more, and lets go of its scope."""

    def __init__(self):
        self.release = asyncio.Event()

    async def __call__(self, scope, _receive, send):
        if scope["type"] != "http":
            return
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}", "more_body": True})
        await self.release.wait()
        await send({"type": "http.response.body"})


@pytest.mark.anyio
async def test_a_stream_keeps_neither_its_request_nor_a_timer():
    """While a stream waits, its connection holds no scope, no header and no timer; then the next request is answered."""
    state: Any = ServerState()
    written: list[bytes] = []
    app = Sleeper()
    connection = Connection(ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60)))
    connection.connection_made(Written(written))
    assert connection._timer.at != NEVER
    connection.data_received(REQUEST.replace(b"\r\n\r\n", b"\r\nx-mark: sleeping stream\r\n\r\n"))
    while not any(b"{}" in one for one in written):
        await asyncio.sleep(0)
    header = (b"x-mark", b"sleeping stream")
    gc.collect()
    assert not [held for held in gc.get_objects() if type(held) is list and header in held]
    assert connection._timer.at == NEVER
    app.release.set()
    connection.data_received(REQUEST)
    while sum(one.startswith(b"HTTP/1.1 200") for one in written) < 2:
        await asyncio.sleep(0)
    connection.connection_lost(None)


@pytest.mark.anyio
async def test_a_registration_can_be_taken_back(plain, serving):
    """A request that has ended hears nothing of the end of its connection, which lives on."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        for _ in range(2):
            writer.write(REQUEST.replace(b"/ ", b"/register-and-take-back "))
            await answer(reader)
        writer.close()
    assert app.events == []
    assert len(app.requests) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n", id="two hosts"),
        pytest.param(b"GET / HTTP/1.0\r\nhost: x\r\nhost: x\r\n\r\n", id="two hosts in 1.0"),
        pytest.param(b"GET / HTTP/2.0\r\nhost: x\r\n\r\n", id="2.0"),
        pytest.param(b"GET / HTTP/0.9\r\nhost: x\r\n\r\n", id="0.9"),
        pytest.param(b"F@O / HTTP/1.1\r\nhost: x\r\n\r\n", id="a method that is no token"),
        pytest.param(b"GET /\xc0\xae HTTP/1.1\r\nhost: x\r\n\r\n", id="overlong form"),
        pytest.param(b"GET /\x00 HTTP/1.1\r\nhost: x\r\n\r\n", id="NUL"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", id="two lengths"),
    ],
)
async def test_a_head_of_no_one_meaning_is_a_status(plain, serving, head):
    """What a proxy might read another way is refused with a Status, and the connection ends."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        writer.write(head)
        received = await reader.read()
        writer.close()
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
    assert json.loads(body)["reason"] == "BadRequest"
    assert app.requests == []


@pytest.mark.anyio
async def test_an_upgrade_is_ignored(plain, serving):
    """The request is answered as it is, and what follows in the same packet is the next request."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        for protocol in (b"websocket", b"h2c"):
            writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: " + protocol + b"\r\n\r\n") + REQUEST)
            for _ in range(2):
                assert (await answer(reader))[1] == b"ok"
        writer.close()
    assert len(app.requests) == 4


@pytest.mark.anyio
async def test_http_1_0_needs_no_host(plain, serving):
    """Old clients and health checks of load balancers are answered."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await answer(reader))[1] == b"ok"
        writer.close()


@pytest.mark.anyio
async def test_pipelined_requests_are_answered_in_order(plain, serving):
    """Several requests in one packet, and one cut between packets, each get their answer."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        writer.write(REQUEST * 2 + REQUEST[:9])
        for _ in range(2):
            await answer(reader)
        writer.write(REQUEST[9:])
        await answer(reader)
        writer.close()
    assert len(app.requests) == 3


@pytest.mark.anyio
@pytest.mark.parametrize(
    "piece",
    [pytest.param(b"x-header: " + b"a" * 1000 + b"\r\n", id="many headers"), pytest.param(b"a" * 1000, id="one endless line")],
)
async def test_a_head_that_is_too_large_is_refused(plain, serving, piece):
    """A client that never ends its head loses the connection, whatever the head is made of; no request reaches the app."""
    app = Recorder()
    async with serving(app, dataclasses.replace(plain, max_request_header_bytes=100_000)) as port:
        reader, writer = await connect(port)
        received = asyncio.ensure_future(reader.read())
        # Bytes that arrive after the server has closed may reset the connection and discard the answer.
        with contextlib.suppress(ConnectionError):
            writer.write(b"GET / HTTP/1.1\r\nx: ")
            while not received.done():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            assert (await received or b"HTTP/1.1 431 ").startswith(b"HTTP/1.1 431 ")
        writer.close()
    assert app.requests == []


@pytest.mark.anyio
async def test_a_lost_connection_is_freed_at_once():
    """Not by the cycle collector, which comes late, while what connections with TLS have received takes half a megabyte each."""
    app = Recorder()
    state: Any = ServerState()
    written: list[bytes] = []
    connection = Connection(ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60)))
    connection.connection_made(Written(written))
    connection.data_received(REQUEST)
    while not written:
        await asyncio.sleep(0)
    app.requests.clear()
    await asyncio.sleep(0)
    gc.disable()
    try:
        connection.connection_lost(None)
        freed = weakref.ref(connection)
        del connection
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.anyio
async def test_a_body_is_not_read_before_it_is_asked_for():
    """A request that is refused for its head costs no more than what came with it, however large its body is."""
    for framing, paused in ((b"content-length: 100000", True), (b"content-length: 9", False)):
        connection, written = _connected()
        connection.data_received(b"POST /hold HTTP/1.1\r\nhost: x\r\n" + framing + b"\r\n\r\n")
        assert (written == [b"paused"]) is paused
        connection.connection_lost(None)


@pytest.mark.anyio
async def test_the_limit_counts_what_follows_the_first_packet():
    """One byte more than the limit is answered with 431 and the connection is closed."""
    connection, written = _connected(max_head_bytes=10)
    connection.data_received(b"GET / HTTP/1.1\r\n")
    connection.data_received(b"x: 3456789")
    assert written == []
    connection.data_received(b"1")
    assert written[0].startswith(b"HTTP/1.1 431 ")
    assert written[1:] == [b"paused", b"end"]
    connection.connection_lost(None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nhost:", REQUEST + b"GET / HT"], ids=["nothing", "half a head", "half a second head"]
)
async def test_a_head_that_does_not_come_ends_the_connection(plain, serving, sent):
    """Connections that say nothing, or stop in the middle of a head, are closed after the time limit."""
    app = Recorder()
    async with serving(app, dataclasses.replace(plain, request_header_timeout=0.05)) as port:
        # Sent before the server accepts the connection, whose time begins then: it always reads this first, however busy the machine is.
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(sent)
        reader, writer = await asyncio.open_connection(sock=client)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
    assert len(app.requests) == sent.count(b"\r\n\r\n")


@pytest.mark.anyio
async def test_a_body_may_be_slow_and_large(plain, serving):
    """The limits are on heads: a body larger than the limit that comes in pieces is read."""
    body = bytearray()

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        while True:
            message = await receive()
            body.extend(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with serving(app, dataclasses.replace(plain, max_request_header_bytes=1000)) as port:
        reader, writer = await connect(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 50000\r\n\r\n")
        for _ in range(50):
            writer.write(b"a" * 1000)
            await writer.drain()
        await answer(reader)
        writer.close()
    assert len(body) == 50000


def _connected(**limits):
    """A connection to a `Recorder`, and the bytes that are written to it."""
    state: Any = ServerState()
    context = ServerContext(Recorder(), state, ReadLimits(**{"max_head_bytes": 1000, "head_timeout": 60, "idle_timeout": 60, **limits}))
    written: list[bytes] = []
    connection = Connection(context)
    connection.connection_made(Written(written))
    return connection, written


@pytest.mark.anyio
@pytest.mark.parametrize("parts", [(REQUEST,), (REQUEST * 3,), (REQUEST[:9], REQUEST[9:])], ids=["one", "pipelined", "in two packets"])
async def test_a_client_that_has_ended_its_side_has_its_answers(plain, serving, parts):
    """All of them, and then the connection ends."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        for part in parts:
            writer.write(part)
            await writer.drain()
        writer.write_eof()
        received = await reader.read()
        writer.close()
    count = b"".join(parts).count(REQUEST)
    assert received.count(b"HTTP/1.1 200 OK") == count
    assert len(app.requests) == count


@pytest.mark.anyio
async def test_a_client_that_has_ended_its_side_waits_for_a_slow_answer(plain, serving):
    """An application that takes its time learns that the client will send nothing more, and its answer arrives."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        writer.write(REQUEST.replace(b"/ ", b"/hold "))
        await app.seen.wait()
        writer.write_eof()
        await app.gone.wait()
        app.release.set()
        assert (await reader.read()).endswith(b"\r\n\r\nok")
        writer.close()
    assert app.events == ["lost", "late"]


@pytest.mark.anyio
async def test_a_client_that_has_ended_its_side_ends_its_watch(plain, serving):
    """The stream is cut short, the connection ends, and nothing is logged as a fault."""

    async def app(scope, _receive, send):
        gone = asyncio.Event()
        scope["state"]["on_disconnect"](gone.set)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await gone.wait()

    with capture_logs() as logs:
        async with serving(app, plain) as port:
            reader, writer = await connect(port)
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\n")
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
    assert [log for log in logs if log["log_level"] == "error"] == []


@pytest.mark.anyio
@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"])
async def test_half_a_request_is_not_answered(plain, serving, sent):
    """A client that ends its side in the middle of a request, or before one, loses the connection."""
    app = Recorder()
    async with serving(app, plain) as port:
        reader, writer = await connect(port)
        writer.write(sent + b"")
        await writer.drain()
        writer.write_eof()
        assert not (await reader.read()).count(b"HTTP/1.1 4")
        writer.close()


class Bodies:
    """Answers each request with the length of its body, once it is released."""

    def __init__(self):
        self.release = asyncio.Event()

    async def __call__(self, _scope, receive, send):
        await self.release.wait()
        body = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d %s" % (len(body["body"]), b"more" if body["more_body"] else b"whole")})


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "paused"), [(DRAIN_BYTES, False), (DRAIN_BYTES + 1, True), (BUFFERED_BYTES + 1, True)])
async def test_a_large_body_that_comes_at_once(size, paused):
    """A request whose header section is known may have a large body: nothing more is read until the application takes it."""
    state: Any = ServerState()
    written: list[bytes] = []
    app = Bodies()
    app.release.set()
    connection = Connection(ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60)))
    connection.connection_made(Written(written))
    request = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
    for number, body in enumerate((b"ab", b"abc", b"a" * size), 1):
        if number == 3:
            app.release.clear()
        connection.data_received(request % (len(body), body))
        await asyncio.sleep(0)
        assert connection.flow.read_paused is (number == 3 and paused)
        app.release.set()
        while b"".join(written).count(b"HTTP/1.1 200") < number:
            await asyncio.sleep(0)
    assert not connection.flow.read_paused
    assert b"%d whole" % size in b"".join(written)
    connection.connection_lost(None)


@pytest.mark.anyio
async def test_an_application_that_answers_without_its_call():
    """`answer_http` of an application is called in the place of the application, for each request once."""
    state: Any = ServerState()
    written: list[bytes] = []

    class Application(Bodies):
        answers = 0

        def answer_http(self, scope, receive, send):
            self.answers += 1
            return super().__call__(scope, receive, send)

        async def __call__(self, *_):
            raise AssertionError

    app = Application()
    app.release.set()
    connection = Connection(ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60)))
    connection.connection_made(Written(written))
    for number in (1, 2, 3):
        connection.data_received(REQUEST)
        while b"".join(written).count(b"HTTP/1.1 200") < number:
            await asyncio.sleep(0)
    assert app.answers == 3
    connection.connection_lost(None)


@pytest.mark.anyio
async def test_middleware_that_passes_on_attributes_is_called():
    """An object around an application that has the attributes of the application answers itself."""

    class Application:
        async def answer_http(self, *_):
            raise AssertionError

    class Middleware:
        def __init__(self, app):
            self.app = app

        def __getattr__(self, name):
            return getattr(self.app, name)

        async def __call__(self, *_):
            raise AssertionError

    middleware = Middleware(Application())
    assert middleware.answer_http is not None
    state: Any = ServerState()
    context = ServerContext(middleware, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60))
    assert context.answer_http is middleware
