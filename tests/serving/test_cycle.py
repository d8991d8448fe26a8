"""How an application reads its request and how its response leaves: byte for byte as uvicorn writes it, and in as few writes as may be."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from structlog.testing import capture_logs
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kcp_py.serving.connection import Connection
from kcp_py.serving.context import ServerContext
from kcp_py.serving.cycle import Cycle
from kcp_py.serving.flow import FlowControl
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.http1.responses import HeadCache, ResponseWriter
from tests.eventloop import until_idle

HEADERS = [(b"audit-id", b"a1"), (b"content-type", b"text/plain"), (b"content-length", b"2")]
BODY = {"type": "http.response.body", "body": b"ok"}
DEFAULTS = [(b"date", b"today")]


class Wire(asyncio.Transport):
    """A transport that keeps its writes."""

    def __init__(self):
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.reads = True

    def get_extra_info(self, name, default=None):
        del name
        return default

    def write(self, data):
        self.writes.append(bytes(data))

    def close(self):
        self.closed = True

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True

    def is_closing(self):
        return self.closed

    @property
    def written(self):
        return b"".join(self.writes)


def start(status=200, headers=None):
    return {"type": "http.response.start", "status": status, "headers": HEADERS if headers is None else headers}


class Link:
    """A connection as a cycle needs it."""

    server_state = SimpleNamespace(default_headers=DEFAULTS)
    abandons_body = False
    client_left = False

    def __init__(self):
        self.transport = Wire()
        self.flow = FlowControl(self.transport)
        self.reported: list[str] = []

    def want_body(self):
        self.reported.append("want_body")

    def response_complete(self):
        self.reported.append("response_complete")


def cycle_on(link, *, method="GET", keep_alive=True, expects_continue=False):
    response = ResponseWriter(method, HeadCache(), keep_alive=keep_alive)
    return Cycle({"method": method}, link, response, expects_continue=expects_continue)


async def run(link, messages):
    """The failures that are logged when an application returns behind these messages."""

    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    tasks: set[asyncio.Task[None]] = set()
    with capture_logs() as logs:
        cycle_on(link).start(app, asyncio.get_running_loop(), tasks)
        await asyncio.wait(list(tasks))
    return [log["event"] for log in logs]


def our_connection(app, state):
    return Connection(ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60)))


def their_connection(app, state):
    config = uvicorn.Config(app, ws="none", interface="asgi3", log_config=None, access_log=False, server_header=False)
    config.load()
    return HttpToolsProtocol(config, state, {})


async def exchange(connect, request, messages):
    """What a connection writes for a request when the application sends these messages, and whether it ends."""

    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    state: Any = ServerState()
    state.default_headers = DEFAULTS
    connection = connect(app, state)
    wire = Wire()
    connection.connection_made(wire)
    connection.data_received(request)
    while state.tasks:
        await asyncio.wait(list(state.tasks))
        await asyncio.sleep(0)
    connection.connection_lost(None)
    return wire.written, wire.closed


def request(method="GET", version="1.1", headers=""):
    return f"{method} / HTTP/{version}\r\nhost: x\r\n{headers}\r\n".encode()


LENGTH_5 = [(b"content-length", b"5")]
MORE = {**BODY, "more_body": True}
LAST: dict[str, Any] = {"type": "http.response.body", "body": b""}
CASES = {
    "whole": (request(), [start(), BODY]),
    "empty": (request(), [start(headers=[(b"content-length", b"0")]), LAST]),
    "error": (request(), [start(404), BODY]),
    "created": (request("POST", headers="content-length: 0\r\n"), [start(201), BODY]),
    "status without a phrase": (request(), [start(599), BODY]),
    "head": (request("HEAD"), [start(), LAST]),
    "head with a body": (request("HEAD"), [start(), BODY]),
    "no content": (request(), [start(204, []), LAST]),
    "not modified": (request(), [start(304, [(b"etag", b'"1"')]), LAST]),
    "without a length": (request(), [start(headers=[]), MORE, BODY]),
    "without headers": (request(), [{"type": "http.response.start", "status": 200}, BODY]),
    "chunked": (request(), [start(headers=[(b"transfer-encoding", b"chunked")]), BODY]),
    "in parts": (request(), [start(headers=[(b"content-length", b"4")]), MORE, BODY]),
    "too short": (request(), [start(headers=LENGTH_5), BODY]),
    "too long": (request(), [start(headers=[(b"content-length", b"1")]), BODY]),
    "unfinished": (request(), [start(headers=LENGTH_5), MORE]),
    "two lengths": (request(), [start(headers=[*HEADERS, (b"content-length", b"2")]), BODY]),
    "not a length": (request(), [start(headers=[(b"content-length", b"two")]), BODY]),
    "asked to close": (request(headers="connection: close\r\n"), [start(), BODY]),
    "old version": (request(version="1.0"), [start(), BODY]),
    "decides to close": (request(), [start(headers=[*HEADERS, (b"connection", b"close")]), BODY]),
    "rare header": (request(), [start(headers=[*HEADERS, (b"x-anything", b"1")]), BODY]),
    "mixed case": (request(), [start(headers=[(b"Content-Length", b"2")]), BODY]),
    "tab in a value": (request(), [start(headers=[*HEADERS, (b"warning", b"a\tb")]), BODY]),
    "latin in a value": (request(), [start(headers=[*HEADERS, (b"warning", b"\xe4\xff")]), BODY]),
    "line end in a value": (request(), [start(headers=[*HEADERS, (b"warning", b"a\r\nx: y")]), BODY]),
    "line feed in a name": (request(), [start(headers=[*HEADERS, (b"a\nb", b"c")]), BODY]),
    "large": (request(), [start(headers=[(b"content-length", b"100000")]), {**BODY, "body": b"x" * 100_000}]),
    "after the end": (request(), [start(), BODY, BODY]),
}
SERVER_ERRORS = {"not a length", "line end in a value", "line feed in a name"}


@pytest.mark.anyio
@pytest.mark.parametrize("name", CASES)
async def test_responses_are_those_of_uvicorn(name):
    """Byte for byte what uvicorn writes for the same messages, and the connection stays or ends as there."""
    ours = await exchange(our_connection, *CASES[name])
    theirs = await exchange(their_connection, *CASES[name])
    assert ours == theirs
    assert ours[0].startswith(b"HTTP/1.1 ") or name in SERVER_ERRORS


@pytest.mark.anyio
async def test_a_whole_response_is_one_write():
    """Head and body leave together, and the connection is told."""
    link = Link()
    cycle = cycle_on(link)
    await cycle.send(start())
    assert link.transport.writes == []
    await cycle.send(BODY)
    assert link.transport.writes == [
        b"HTTP/1.1 200 OK\r\ndate: today\r\naudit-id: a1\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok",
    ]
    assert link.reported == ["response_complete"]
    assert await cycle.receive() == {"type": "http.disconnect"}


@pytest.mark.anyio
async def test_a_stream_starts_at_once():
    """Clients of watches wait for the head: a response without a length does not keep it back."""
    link = Link()
    await cycle_on(link).send(start(headers=[]))
    assert link.transport.writes[0].endswith(b"transfer-encoding: chunked\r\n\r\n")
    assert link.reported == ["want_body"]


@pytest.mark.anyio
async def test_an_application_that_does_not_complete_its_response():
    """It is a fault, which is logged, and the connection ends; a client that has no head yet is answered."""
    link = Link()
    assert await run(link, [start(headers=[])]) == ["application_failed"]
    assert link.transport.closed
    link = Link()
    link.client_left = True
    assert await run(link, []) == ["application_failed"]
    assert link.transport.written.startswith(b"HTTP/1.1 500 ")


@pytest.mark.anyio
async def test_a_stream_ends_with_its_client():
    """A response without an end is not a fault when the client has ended its side. The connection is closed."""
    link = Link()
    link.client_left = True
    assert await run(link, [start(headers=[])]) == []
    assert link.transport.closed
    assert not link.transport.written.endswith(b"0\r\n\r\n")


@pytest.mark.anyio
async def test_nothing_is_sent_behind_a_disconnect():
    """Messages go nowhere, and the next one that is received says so."""
    link = Link()
    cycle = cycle_on(link)
    await cycle.send(start())
    cycle.disconnect()
    await cycle.send(BODY)
    assert link.transport.writes == []
    assert await cycle.receive() == {"type": "http.disconnect"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([BODY], id="a body first"),
        pytest.param([start(), start()], id="two heads"),
        pytest.param([start(), BODY, BODY], id="a body behind the end"),
        pytest.param([{"type": "http.response.trailers"}], id="another message"),
    ],
)
async def test_messages_that_are_no_response(messages):
    """They are an error of the application."""
    cycle = cycle_on(Link())
    for message in messages[:-1]:
        await cycle.send(message)
    with pytest.raises(RuntimeError):
        await cycle.send(messages[-1])


@pytest.mark.anyio
async def test_the_body_of_a_request_is_read_in_parts():
    """What comes before it is asked for is kept together, and asking ends when the rest is there."""
    link = Link()
    cycle = cycle_on(link)
    for part in (b"a", b"b", b"c"):
        cycle.add_body(part)
    assert await cycle.receive() == {"type": "http.request", "body": b"abc", "more_body": True}
    waiting = asyncio.ensure_future(cycle.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    cycle.add_body(b"d")
    cycle.end_body()
    assert await waiting == {"type": "http.request", "body": b"d", "more_body": False}
    assert link.reported == ["want_body"]


@pytest.mark.anyio
async def test_a_client_that_waits_to_be_told_to_go_on_is_told():
    """100 Continue goes out when the body is asked for, once."""
    link = Link()
    cycle = cycle_on(link, method="POST", expects_continue=True)
    for _ in range(2):
        cycle.add_body(b"x")
        await cycle.receive()
    assert link.transport.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]


@pytest.mark.anyio
async def test_a_refused_client_is_not_told_to_go_on():
    """The refusal is the answer: nothing follows it when the application asks for the body."""
    link = Link()
    cycle = cycle_on(link, method="POST", expects_continue=True)
    cycle.disconnect()
    assert (await cycle.receive())["type"] == "http.disconnect"
    assert link.transport.writes == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("abandoned", "expects"), [(True, False), (False, True)], ids=["a long body", "a body that waits for 100 Continue"]
)
async def test_a_body_that_is_not_read_ends_the_connection(abandoned, expects):
    """The response says so, and the client has time to read it."""
    link = Link()
    link.abandons_body = abandoned
    cycle = cycle_on(link, method="POST", expects_continue=expects)
    await cycle.send(start())
    await cycle.send(BODY)
    assert b"\r\nconnection: close\r\n" in link.transport.written
    assert cycle.lingers


@pytest.mark.anyio
async def test_a_large_body_goes_out_in_pieces_as_the_client_reads():
    """While the connection takes no more, the rest of the body waits, and so does the application."""
    link = Link()
    cycle = cycle_on(link)
    body = b"x" * 1_200_000
    await cycle.send(start(headers=[(b"content-length", b"%d" % len(body))]))
    link.flow.pause_writing()
    sending = asyncio.ensure_future(cycle.send({"type": "http.response.body", "body": body}))
    await until_idle()
    assert not sending.done()
    link.flow.resume_writing()
    await sending
    assert link.transport.written.endswith(body)
    assert max(map(len, link.transport.writes)) < len(body) / 2


@pytest.mark.anyio
async def test_a_large_body_is_not_sent_on_to_who_has_left():
    """A client that leaves between two pieces ends the response."""
    link = Link()
    cycle = cycle_on(link)
    await cycle.send(start(headers=[(b"content-length", b"2000000")]))
    link.flow.pause_writing()
    sending = asyncio.ensure_future(cycle.send({"type": "http.response.body", "body": b"x" * 2_000_000}))
    await asyncio.sleep(0)
    cycle.disconnect()
    link.flow.resume_writing()
    await sending
    assert link.transport.written == b""


@pytest.mark.anyio
async def test_shared_chunks_are_written_only_into_bodies_in_chunks():
    """Not before the head, to a client that does not read, behind the end, or into a body of another form."""
    link = Link()
    cycle = cycle_on(link)
    assert not cycle.write_chunk(b"1\r\nx\r\n")
    await cycle.send(start(headers=[]))
    assert cycle.write_chunk(b"1\r\nx\r\n")
    assert link.transport.writes[-1] == b"1\r\nx\r\n"
    link.flow.pause_writing()
    assert not cycle.write_chunk(b"1\r\ny\r\n")
    link.flow.resume_writing()
    await cycle.send(LAST)
    assert not cycle.write_chunk(b"1\r\ny\r\n")
    assert b"y" not in b"".join(link.transport.writes[1:])
    for other in (cycle_on(Link(), method="HEAD"), cycle_on(Link())):
        await other.send(start(headers=LENGTH_5 if other.scope["method"] == "GET" else []))
        assert not other.write_chunk(b"1\r\nx\r\n")
    gone = cycle_on(Link())
    await gone.send(start(headers=[]))
    gone.disconnect()
    assert not gone.write_chunk(b"1\r\nx\r\n")


LINES = b"audit-id: a1\r\n"


def test_a_response_at_once_is_one_write():
    """It is complete, and the connection goes on behind it."""
    link = Link()
    assert cycle_on(link).write_response(201, LINES, b"ok")
    assert link.transport.writes == [b"HTTP/1.1 201 Created\r\ndate: today\r\naudit-id: a1\r\ncontent-length: 2\r\n\r\nok"]
    assert link.reported == ["response_complete"]


@pytest.mark.anyio
async def test_a_response_at_once_is_refused_where_it_must_wait():
    """To HEAD, with a large body, to a client that does not read or has left, and behind a response: nothing is written."""
    paused, gone, begun = Link(), cycle_on(Link()), cycle_on(Link())
    paused.flow.pause_writing()
    gone.disconnect()
    await begun.send(start(headers=[]))
    for cycle, body in (
        (cycle_on(paused), b"ok"),
        (gone, b"ok"),
        (begun, b"ok"),
        (cycle_on(Link(), method="HEAD"), b"ok"),
        (cycle_on(Link()), b"x" * 100_000),
        (cycle_on(Link(), expects_continue=True), b"ok"),
    ):
        link, before = cycle._connection, list(cycle._connection.transport.writes)
        assert not cycle.write_response(200, LINES, body)
        assert link.transport.writes == before
        assert "response_complete" not in link.reported


@pytest.mark.anyio
async def test_a_response_at_once_to_a_request_that_is_not_complete():
    """A waiting `receive` reports the end; a connection that cannot go on is closed behind the response, with time to read it."""
    link = Link()
    cycle = cycle_on(link, keep_alive=False)
    receiving = asyncio.ensure_future(cycle.receive())
    await asyncio.sleep(0)
    assert cycle.write_response(200, LINES, b"ok")
    assert await receiving == {"type": "http.disconnect"}
    assert cycle.lingers
    assert b"connection: close" in link.transport.written
    link.abandons_body = True
    assert not cycle_on(link).write_response(200, LINES, b"ok")


@pytest.mark.anyio
async def test_a_body_at_once():
    """A complete body is taken once, and reading goes on behind it; `receive` then waits for the end of the response."""
    link = Link()
    cycle = cycle_on(link, method="PUT")
    cycle.add_body(b"ab")
    cycle.add_body(b"cd")
    cycle.end_body()
    link.flow.pause_reading()
    assert cycle.take_body() == b"abcd"
    assert link.reported == ["want_body"]
    assert link.transport.reads
    assert cycle.take_body() is None
    receiving = asyncio.ensure_future(cycle.receive())
    await asyncio.sleep(0)
    assert not receiving.done()
    assert cycle.write_response(200, LINES, b"ok")
    assert await receiving == {"type": "http.disconnect"}


@pytest.mark.anyio
async def test_a_body_that_is_not_taken_at_once():
    """A part of a body, a body that the client waits to be asked for, and one of a client that has left are left to `receive`."""
    part, asked, gone, read = cycle_on(Link()), cycle_on(Link(), expects_continue=True), cycle_on(Link()), cycle_on(Link())
    for cycle in (part, asked, gone, read):
        cycle.add_body(b"ab")
    for cycle in (asked, gone, read):
        cycle.end_body()
    gone.disconnect()
    assert await read.receive() == {"type": "http.request", "body": b"ab", "more_body": False}
    assert [cycle.take_body() for cycle in (part, asked, gone, read)] == [None] * 4
    assert await gone.receive() == {"type": "http.disconnect"}
    part.end_body()
    for cycle in (part, asked):
        assert await cycle.receive() == {"type": "http.request", "body": b"ab", "more_body": False}


@pytest.mark.anyio
async def test_a_body_that_came_at_once():
    """The reader of the connection keeps nothing of it, and is not asked; `receive` has the body, too, and waits behind it."""
    link = Link()
    cycle = cycle_on(link, method="PUT")
    cycle.take_whole(b"abcd")
    link.flow.pause_reading()
    assert cycle.take_body() == b"abcd"
    assert link.transport.reads
    assert link.reported == []
    assert cycle.take_body() is None
    received = cycle_on(Link(), method="PUT")
    received.take_whole(b"")
    assert await received.receive() == {"type": "http.request", "body": b"", "more_body": False}
    waiting = asyncio.ensure_future(received.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    received.disconnect()
    assert await waiting == {"type": "http.disconnect"}
