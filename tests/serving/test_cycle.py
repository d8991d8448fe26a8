"""How responses leave: whole ones in one write, all others as uvicorn's own cycle writes them, and nothing but what HTTP allows."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from kcp_py.serving.cycle import Cycle, Flow, Prefixes, Signal
from kcp_py.serving.protocol import connection_class

HEADERS = [(b"audit-id", b"a1"), (b"content-type", b"text/plain"), (b"content-length", b"2")]
BODY = {"type": "http.response.body", "body": b"ok"}
DEFAULTS = [(b"date", b"today")]


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def get_extra_info(self, name, default=None):
        del name
        return default

    def write(self, data):
        self.writes.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    @property
    def written(self):
        return b"".join(self.writes)


def start(status=200, headers=None):
    return {"type": "http.response.start", "status": status, "headers": HEADERS if headers is None else headers}


def cycle_on(wire, *, method="GET", keep_alive=True):
    return Cycle({"method": method}, wire, FlowControl(wire), Prefixes(), DEFAULTS, False, keep_alive, lambda: None)


async def exchange(cls, request, messages):
    """What a connection of a class writes for a request when the application sends these messages, how often, and whether it stays."""

    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    config = uvicorn.Config(app, ws="none", interface="asgi3", log_config=None, access_log=False, server_header=False)
    config.load()
    state = ServerState()
    state.default_headers = DEFAULTS
    connection = cls(config, state, {})
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
    ours = await exchange(connection_class(max_head_bytes=1000, head_timeout=60), *CASES[name])
    theirs = await exchange(HttpToolsProtocol, *CASES[name])
    assert ours == theirs
    assert ours[0].startswith(b"HTTP/1.1 ") or name in SERVER_ERRORS


@pytest.mark.anyio
async def test_a_whole_response_is_one_write():
    """Head and body leave together."""
    wire = Wire()
    cycle = cycle_on(wire)
    await cycle.send(start())
    assert wire.writes == []
    await cycle.send(BODY)
    assert wire.writes == [
        b"HTTP/1.1 200 OK\r\ndate: today\r\naudit-id: a1\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok",
    ]
    assert cycle.response_complete
    assert cycle.message_event.is_set


@pytest.mark.anyio
async def test_a_stream_starts_at_once():
    """Clients of watches wait for the head: a response without a length does not keep it back."""
    wire = Wire()
    await cycle_on(wire).send(start(headers=[]))
    assert wire.writes[0].endswith(b"transfer-encoding: chunked\r\n\r\n")


@pytest.mark.anyio
@given(name=st.sampled_from([b"warning", b"content-type", b"audit-id", b"location", b"x-other"]), value=st.binary(max_size=40))
async def test_no_value_ends_its_header(name, value):
    """Whatever is in a value, a response is refused or has exactly the headers that it was given."""
    wire = Wire()
    cycle = cycle_on(wire)
    refused = any(byte in value for byte in (*range(9), *range(10, 32), 127))
    headers = [(name, value), (b"content-length", b"2")]
    if refused:
        with pytest.raises(RuntimeError):
            await cycle.send(start(headers=headers))
        assert wire.written == b""
    else:
        await cycle.send(start(headers=headers))
        await cycle.send(BODY)
        assert wire.written == b"HTTP/1.1 200 OK\r\ndate: today\r\n" + name + b": " + value + b"\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.anyio
async def test_nothing_is_sent_to_who_has_left():
    """After a disconnect messages go nowhere."""
    wire = Wire()
    cycle = cycle_on(wire)
    await cycle.send(start())
    cycle.disconnected = True
    await cycle.send(BODY)
    assert wire.writes == []


def test_default_headers_are_checked():
    """What stands before every head is no way in either."""
    with pytest.raises(RuntimeError):
        Prefixes().of(200, [(b"date", b"a\r\nb: c")])


def test_the_present_default_headers_are_used():
    """When the server's headers change, so do the heads."""
    prefixes = Prefixes()
    assert prefixes.of(200, [(b"date", b"1")]) == b"HTTP/1.1 200 OK\r\ndate: 1\r\n"
    assert prefixes.of(200, [(b"date", b"2")]) == b"HTTP/1.1 200 OK\r\ndate: 2\r\n"


@pytest.mark.anyio
async def test_the_body_of_a_request_is_read_in_parts():
    """What comes before it is asked for is kept together, and asking ends when the rest is there."""
    cycle = cycle_on(Wire())
    for part in (b"a", b"b", b"c"):
        cycle.received(part)
    assert await cycle.receive() == {"type": "http.request", "body": b"abc", "more_body": True}
    waiting = asyncio.ensure_future(cycle.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    cycle.received(b"d")
    cycle.more_body = False
    assert await waiting == {"type": "http.request", "body": b"d", "more_body": False}


@pytest.mark.anyio
async def test_a_client_that_waits_to_be_told_to_go_on_is_told():
    """100 Continue goes out when the body is asked for, once."""
    wire = Wire()
    cycle = Cycle({"method": "POST"}, wire, FlowControl(wire), Prefixes(), DEFAULTS, True, True, lambda: None)
    for _ in range(2):
        cycle.received(b"x")
        await cycle.receive()
    assert wire.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]


@pytest.mark.anyio
async def test_everyone_who_waits_for_a_signal_hears_it():
    """Like an event, before and after somebody waits."""
    signal = Signal()
    waiting = [asyncio.ensure_future(signal.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    signal.set()
    await asyncio.gather(*waiting)
    await signal.wait()
    signal.clear()
    again = asyncio.ensure_future(signal.wait())
    await asyncio.sleep(0)
    assert not again.done()
    signal.set()
    await again


@pytest.mark.anyio
async def test_cycles_have_what_uvicorns_methods_work_with():
    """A uvicorn whose cycle has got a further attribute is noticed here."""
    wire = Wire()
    names = inspect.signature(RequestResponseCycle).parameters
    theirs = RequestResponseCycle(**dict.fromkeys(names))  # type: ignore[arg-type] # only which attributes it has
    assert vars(theirs).keys() <= vars(cycle_on(wire)).keys()


@pytest.mark.anyio
async def test_flow_control_waits_as_uvicorns_does():
    """It has what uvicorn's methods work with, and whoever has to wait for the client goes on when that has read."""
    flow = Flow(Wire())
    assert vars(flow).keys() == vars(FlowControl(Wire())).keys()
    await flow.drain()
    flow.pause_writing()
    waiting = [asyncio.ensure_future(flow.drain()) for _ in range(2)]
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [False, False]
    flow.resume_writing()
    await asyncio.gather(*waiting)
    await flow.drain()


@pytest.mark.anyio
async def test_a_large_body_goes_out_in_pieces_as_the_client_reads():
    """While the connection takes no more, the rest of the body waits, and so does the application."""
    wire = Wire()
    cycle = cycle_on(wire)
    body = b"x" * 1_200_000
    await cycle.send(start(headers=[(b"content-length", b"%d" % len(body))]))
    cycle.flow.pause_writing()
    sending = asyncio.ensure_future(cycle.send({"type": "http.response.body", "body": body}))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not sending.done()
    cycle.flow.resume_writing()
    await sending
    assert wire.written.endswith(body)
    assert max(map(len, wire.writes)) < len(body) / 2
