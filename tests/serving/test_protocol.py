"""What the application learns of its connection, and the limits on request heads."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import weakref
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from kcp_py.serving.protocol import Connection, connection_class

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
        # What is on its way when the server closes may reset the connection and take the answer with it.
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
    config = uvicorn.Config(app, ws="none", interface="asgi3", log_config=None)
    config.load()
    written: list[bytes] = []
    connection = connection_class(max_head_bytes=1000, head_timeout=60)(config, ServerState(), {})
    connection.connection_made(Written(written))
    connection.data_received(REQUEST)
    while not written:
        await asyncio.sleep(0)
    app.requests.clear()
    await asyncio.sleep(0)
    gc.disable()
    try:
        connection.connection_lost(None)
        freed = weakref.ref(connection.flow)
        del connection
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.anyio
async def test_a_body_is_not_read_before_it_is_asked_for():
    """A request that is refused for its head costs no more than what came with it, however large its body is."""
    app = Recorder()
    config = uvicorn.Config(app, ws="none", interface="asgi3", log_config=None)
    config.load()
    for framing, paused in ((b"content-length: 100000", True), (b"content-length: 9", False)):
        written: list[bytes] = []
        connection = connection_class(max_head_bytes=1000, head_timeout=60)(config, ServerState(), {})
        connection.connection_made(Written(written))
        connection.data_received(b"POST /hold HTTP/1.1\r\nhost: x\r\n" + framing + b"\r\n\r\n")
        assert (written == [b"paused"]) is paused
        connection.connection_lost(None)


@pytest.mark.anyio
async def test_the_limit_counts_what_follows_the_first_packet():
    """One byte more than the limit is answered with 431 and the connection is closed."""
    written: list[bytes] = []
    transport = Written(written)
    config = uvicorn.Config(Recorder(), ws="none", interface="asgi3", log_config=None)
    config.load()
    connection = connection_class(max_head_bytes=10, head_timeout=60)(config, ServerState(), {})
    connection.connection_made(transport)
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
        reader, writer = await connect(port)
        writer.write(sent)
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


def _idle_connection(clock):
    """A connection that has answered one request, on a loop whose time is given."""
    timers: list[Any] = []

    class Timer:
        def __init__(self, delay, callback):
            self.delay = delay
            self.callback = callback

        def cancel(self):
            timers.remove(self)

    class Loop:
        def time(self):
            return clock[0]

        def call_later(self, delay, callback):
            timers.append(Timer(delay, callback))
            return timers[-1]

    loop: Any = Loop()
    config = uvicorn.Config(Recorder(), ws="none", interface="asgi3", log_config=None, timeout_keep_alive=5)
    config.load()
    connection = connection_class(max_head_bytes=1000, head_timeout=60)(config, ServerState(), {}, loop)
    written: list[bytes] = []
    connection.connection_made(Written(written))
    timers.clear()
    return connection, timers, written


@pytest.mark.anyio
async def test_idle_time_counts_from_the_last_response():
    """The one timer of a connection is set anew for what is left, and rests while a request is under way."""
    clock = [0.0]
    connection, timers, written = _idle_connection(clock)
    connection.on_response_complete()
    clock[0] = 3.0
    connection.on_response_complete()
    (timer,) = timers
    timers.clear()
    clock[0] = 5.0
    timer.callback()
    assert [timer.delay for timer in timers] == [3.0]
    connection.data_received(b"GE")
    timers.pop(0).callback()
    assert timers == []
    assert written == []
    connection.on_response_complete()
    clock[0] = 10.0
    timers.pop().callback()
    assert written == [b"closed"]


def test_a_connection_has_no_more_attributes_than_instances_can_share():
    """CPython shares the keys of 30 attributes (SHARED_KEYS_MAX_SIZE) between instances; one more costs each connection over 1 KB."""
    connection, _, _ = _idle_connection([0.0])
    connection.on_message_begin()
    assert len(vars(connection)) <= 30


REPLACED = {
    "__init__",
    "connection_lost",
    "connection_made",
    "data_received",
    "on_body",
    "on_header",
    "on_headers_complete",
    "on_message_begin",
    "on_message_complete",
    "on_response_complete",
    "shutdown",
}
"""What `Connection` has of its own; those with an `__init__` or with `connection` or `shutdown` in their names call uvicorn's, too."""
USED = {
    "_start_asgi_task",
    "_unset_keepalive_if_required",
    "eof_received",
    "on_url",
    "pause_writing",
    "resume_writing",
    "timeout_keep_alive_handler",
}
"""What it takes over unchanged."""
UNUSED = {
    "_get_upgrade",
    "_should_upgrade",
    "_should_upgrade_to_ws",
    "_unsupported_upgrade_warning",
    "handle_websocket_upgrade",
    "send_400_response",
}
"""What nothing calls."""


def test_uvicorns_protocol_is_the_one_that_is_known():
    """A uvicorn whose protocol or server has got, lost or renamed what is built upon is noticed here."""
    theirs = {name for name, value in vars(HttpToolsProtocol).items() if callable(value)}
    assert theirs == REPLACED | USED | UNUSED
    ours = {name for base in Connection.__mro__[: Connection.__mro__.index(HttpToolsProtocol)] for name in vars(base)}
    assert ours & theirs == REPLACED
    assert vars(ServerState()).keys() == {"connections", "default_headers", "tasks", "total_requests"}
    assert {name for name, value in vars(RequestResponseCycle).items() if callable(value)} == {
        "__init__",
        "receive",
        "run_asgi",
        "send",
        "send_500_response",
    }
    assert {name for name, value in vars(FlowControl).items() if callable(value)} == {
        "__init__",
        "drain",
        "pause_reading",
        "pause_writing",
        "resume_reading",
        "resume_writing",
    }


@pytest.mark.anyio
async def test_uvicorns_protocol_has_the_attributes_that_are_known():
    """Those that its constructor sets are set by the same name here, and none more."""
    config = uvicorn.Config(Recorder(), ws="none", interface="asgi3", log_config=None)
    config.load()
    theirs = vars(HttpToolsProtocol(config, ServerState(), {})).keys()
    ours = vars(connection_class(max_head_bytes=10, head_timeout=60)(config, ServerState(), {})).keys()
    assert ours == theirs
    assert len(theirs) == 27
