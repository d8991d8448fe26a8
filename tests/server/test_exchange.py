from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from kcp_py.logicalcluster import ROOT
from kcp_py.request.context import RequestContext
from kcp_py.server.bodyreader import MAX_BODY_BYTES
from kcp_py.server.compression import GZIP_THRESHOLD_BYTES
from kcp_py.server.exchange import Exchange

pytestmark = pytest.mark.anyio


class Wire:
    """Both directions of one request."""

    def __init__(self, *incoming: dict[str, Any]) -> None:
        self.incoming = list(incoming)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        return self.incoming.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def exchange(
        self, *headers: tuple[bytes, bytes], method: str = "GET", query: bytes = b"", state: dict[str, Any] | None = None
    ) -> Exchange:
        scope = {"type": "http", "method": method, "headers": list(headers), "query_string": query, "state": state or {}}
        exchange = Exchange(scope, self.receive, self.send)  # type: ignore[arg-type]
        exchange.audit_id = "id-1"
        exchange.cluster = ROOT
        return exchange

    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


def chunk(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


async def test_body_in_one_piece():
    """A body that arrives at once is returned as it is."""
    assert await Wire(chunk(b"abc")).exchange().read_body() == b"abc"


async def test_a_body_is_read_once():
    """A handler that retries a write gets the same body again."""
    exchange = Wire(chunk(b"abc")).exchange()
    assert await exchange.read_body() is await exchange.read_body()


class Server(Wire):
    """A server that has the body at hand, or says that it has to be received."""

    def __init__(self, body: bytes | None, *incoming: dict[str, Any]) -> None:
        super().__init__(*incoming)
        self.body = body

    def take_body(self) -> bytes | None:
        return self.body


@pytest.mark.parametrize(
    ("body", "declared", "limit", "expected"),
    [
        pytest.param(b"abc", b"3", MAX_BODY_BYTES, b"abc", id="at hand"),
        pytest.param(b"", b"0", MAX_BODY_BYTES, b"", id="empty"),
        pytest.param(None, b"3", MAX_BODY_BYTES, b"received", id="not complete"),
        pytest.param(b"abc", b"", MAX_BODY_BYTES, b"received", id="of unknown length"),
        pytest.param(b"abc", b"70000", MAX_BODY_BYTES, b"received", id="one that needs a place in the budget"),
        pytest.param(b"abc", b"3", 10, b"received", id="a small limit"),
    ],
)
async def test_a_body_at_hand(body, declared, limit, expected):
    """A small body that has come is taken from the server; others are received, with all limits."""
    headers = [(b"content-length", declared)] if declared else []
    assert await Server(body, chunk(b"received")).exchange(*headers).read_body(limit) == expected


async def test_respond():
    """A response carries the audit id, is not cached, and says how long it is."""
    wire = Wire()
    exchange = wire.exchange()
    await exchange.respond(201, b"{}", headers=[(b"etag", b"x")])
    assert wire.sent[0]["status"] == exchange.status == 201
    assert wire.headers() == {
        b"audit-id": b"id-1",
        b"content-type": b"application/json",
        b"content-length": b"2",
        b"cache-control": b"no-cache, private",
        b"etag": b"x",
    }
    assert wire.sent[1:] == [{"type": "http.response.body", "body": b"{}"}]
    assert exchange.finished


async def test_own_cache_control():
    """A handler that allows caching is not overruled."""
    wire = Wire()
    await wire.exchange().respond(200, b"{}", headers=[(b"cache-control", b"public")])
    assert [value for name, value in wire.sent[0]["headers"] if name == b"cache-control"] == [b"public"]


async def test_warnings_become_headers():
    """What handlers warn of goes out with the response."""
    wire = Wire()
    exchange = wire.exchange()
    exchange.warnings += ["one", "two", "one"]
    await exchange.respond(200, b"{}")
    assert [value for name, value in wire.sent[0]["headers"] if name == b"warning"] == [b'299 - "one"', b'299 - "two"']


async def test_head():
    """HEAD gets the headers of GET without the body."""
    wire = Wire()
    await wire.exchange(method="HEAD").respond(200, b"abc")
    assert wire.headers()[b"content-length"] == b"3"
    assert wire.sent[1]["body"] == b""


BIG = b"x" * (GZIP_THRESHOLD_BYTES + 1)


@pytest.mark.parametrize("accepted", [b"gzip", b"deflate, gzip", b"gzip,br"])
async def test_large_bodies_are_compressed(accepted):
    """Bodies above 128 KiB are compressed for clients that take it, and say so to caches."""
    wire = Wire()
    await wire.exchange((b"accept-encoding", accepted)).respond(200, BIG)
    headers = wire.headers()
    assert headers[b"content-encoding"] == b"gzip"
    assert headers[b"vary"] == b"Accept-Encoding"
    body = wire.sent[1]["body"]
    assert int(headers[b"content-length"]) == len(body) < len(BIG)
    assert zlib.decompress(body, 31) == BIG


@pytest.mark.parametrize(
    ("method", "headers", "body"),
    [
        pytest.param("GET", [(b"accept-encoding", b"gzip")], BIG[:-1], id="small"),
        pytest.param("GET", [], BIG, id="not accepted"),
        pytest.param("GET", [(b"accept-encoding", b"br")], BIG, id="other encoding"),
    ],
)
async def test_other_bodies_are_not_compressed(method, headers, body):
    """Everything else is sent as it is."""
    wire = Wire()
    await wire.exchange(*headers, method=method).respond(200, body)
    assert b"content-encoding" not in wire.headers()
    assert wire.sent[1]["body"] == body


@pytest.mark.parametrize(
    ("parts", "method", "accepted", "bodies"),
    [
        pytest.param([b"a", BIG, b"b"], "GET", b"identity", [b"a", BIG, b"b"], id="large"),
        pytest.param([b"a", b"b"], "GET", b"identity", [b"ab"], id="small"),
        pytest.param([BIG], "GET", b"identity", [BIG], id="one"),
        pytest.param([b"a", BIG], "HEAD", b"identity", [b""], id="head"),
    ],
)
async def test_a_large_body_goes_out_in_the_pieces_that_it_came_in(parts, method, accepted, bodies):
    """With the length of the whole; small ones are put together."""
    wire = Wire()
    exchange = wire.exchange((b"accept-encoding", accepted), method=method)
    await exchange.respond_in_parts(200, parts)
    assert wire.headers()[b"content-length"] == b"%d" % sum(map(len, parts))
    assert [message["body"] for message in wire.sent[1:]] == bodies
    assert [message.get("more_body", False) for message in wire.sent[1:]] == [True] * (len(bodies) - 1) + [False]
    assert exchange.finished
    assert exchange.sent_bytes == sum(map(len, parts))


async def test_pieces_are_compressed_as_one():
    """For clients that take it."""
    wire = Wire()
    await wire.exchange((b"accept-encoding", b"gzip")).respond_in_parts(200, [b"a", BIG, b"b"])
    assert zlib.decompress(wire.sent[1]["body"], 31) == b"a" + BIG + b"b"
    assert len(wire.sent) == 2


async def test_stream():
    """Headers go out at once; every chunk goes out by itself; the end is told."""
    wire = Wire()
    exchange = wire.exchange()
    await exchange.start_stream()
    assert [message["type"] for message in wire.sent] == ["http.response.start", "http.response.body"]
    assert b"content-length" not in wire.headers()
    await exchange.send_chunk(b"one")
    assert not exchange.finished
    await exchange.finish()
    assert wire.sent[2:] == [
        {"type": "http.response.body", "body": b"one", "more_body": True},
        {"type": "http.response.body", "body": b""},
    ]
    assert exchange.finished
    assert exchange.sent_bytes == 3


async def test_repeated_headers():
    """The first of repeated headers counts, and all can be asked for."""
    exchange = Wire().exchange((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    assert exchange.headers[b"a"] == b"1"
    assert exchange.has_duplicates
    assert exchange.header_values(b"a") == [b"1", b"3"]
    assert exchange.header_values(b"c") == []


async def test_headers():
    """A header has one value or none."""
    exchange = Wire().exchange((b"a", b"1"))
    assert exchange.header_values(b"a") == (b"1",)
    assert exchange.header_values(b"c") == ()


async def test_disconnect_through_the_server():
    """Where the server offers a registration, it is used, and taken back at the end."""
    registered: list[Any] = []
    log: list[str] = []

    def register(callback):
        registered.append(callback)
        return lambda: registered.remove(callback)

    exchange = Wire().exchange(state={"on_disconnect": register})
    exchange.on_disconnect(lambda: log.append("first"))
    exchange.on_disconnect(lambda: log.append("second"))
    assert len(registered) == 1
    registered[0]()
    assert log == ["first", "second"]
    assert exchange.disconnected
    exchange.release()
    assert registered == []


async def test_registration_is_taken_back_by_the_response():
    """A connection that lives on does not keep callbacks of requests that have ended."""
    registered: list[Any] = []

    def register(callback):
        registered.append(callback)
        return lambda: registered.remove(callback)

    exchange = Wire().exchange(state={"on_disconnect": register})
    exchange.on_disconnect(lambda: None)
    await exchange.respond(200, b"")
    assert registered == []


async def test_disconnect_through_the_channel():
    """Without one, the receive channel is read."""
    exchange = Wire(chunk(b""), GONE).exchange()
    gone = asyncio.Event()
    exchange.on_disconnect(gone.set)
    await gone.wait()
    late = asyncio.Event()
    exchange.on_disconnect(late.set)
    await late.wait()


async def test_no_callback_after_the_end():
    """Registrations are removed once the stream has ended."""
    called = False

    def callback() -> None:
        nonlocal called
        called = True

    wire = Wire()
    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await never.wait()
        return GONE

    exchange = wire.exchange()
    exchange.receive = receive
    exchange.on_disconnect(callback)
    await exchange.start_stream()
    await exchange.finish()
    never.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not called


async def test_a_stream_goes_on_without_what_was_learned_of_its_request():
    """Once the filters have returned, a long stream holds nothing of its request, and can still be written."""
    wire = Wire()
    exchange = wire.exchange((b"authorization", b"Bearer secret"), query=b"watch=true")
    assert exchange.query
    exchange.context = RequestContext("id-1", ROOT, False, exchange.info, exchange.user, exchange.warnings, {})
    await exchange.start_stream()

    async def rest() -> None:
        await exchange.send_chunk(b"line")
        await exchange.finish()

    exchange.continuation = rest
    going_on = exchange.go_on()
    held = [
        getattr(exchange, name, None)
        for name in ("context", "headers", "scope", "state", "_parameters", "_query", "_body", "resolved", "continuation")
    ]
    assert held == [None] * len(held)
    await going_on
    assert [message.get("body") for message in wire.sent] == [None, b"", b"line", b""]
    assert exchange.finished


class AtOnce(Wire):
    """A server that writes whole responses."""

    def __init__(self, *, takes: bool = True) -> None:
        super().__init__()
        self.takes = takes
        self.written: list[tuple[int, bytes, bytes]] = []

    def write_response(self, status: int, lines: bytes, body: bytes) -> bool:
        if self.takes:
            self.written.append((status, lines, body))
        return self.takes


LINES = b"audit-id: id-1\r\ncontent-type: %b\r\ncache-control: no-cache, private\r\n"


async def test_ordinary_responses_are_written_at_once():
    """A server that offers it gets the response without messages, and the exchange knows that it is finished."""
    wire = AtOnce()
    exchange = wire.exchange()
    await exchange.respond(201, b"{}")
    assert wire.written == [(201, LINES % b"application/json", b"{}")]
    assert (wire.sent, exchange.status, exchange.finished, exchange.sent_bytes) == ([], 201, True, 2)


@pytest.mark.parametrize(
    ("content_type", "headers", "warnings", "body"),
    [
        pytest.param(b"text/plain", [(b"etag", b"x")], [], b"{}", id="headers"),
        pytest.param(b"text/plain", [], ["beware"], b"{}", id="warnings"),
        pytest.param(b"text/plain", [], [], BIG, id="a large body"),
        pytest.param(b"text/plain\r\nset-cookie: a", [], [], b"{}", id="a content type that would end the header"),
        pytest.param(b"text/plain\x7f", [], [], b"{}", id="a control character in the content type"),
    ],
)
async def test_other_responses_are_sent(content_type, headers, warnings, body):
    """Everything unusual goes the way that checks each header."""
    wire = AtOnce()
    exchange = wire.exchange()
    exchange.warnings += warnings
    await exchange.respond(200, body, content_type, headers)
    assert not wire.written
    assert len(wire.sent) == 2


async def test_a_response_that_the_server_does_not_take_is_sent():
    """A client that does not read gets its response when it does."""
    wire = AtOnce(takes=False)
    exchange = wire.exchange()
    await exchange.respond(200, b"{}")
    assert [message["type"] for message in wire.sent] == ["http.response.start", "http.response.body"]
    assert exchange.finished


async def test_a_query_is_of_its_request():
    """What a filter changes in the query of a request, handlers of this request find, and those of equal ones do not."""
    first, second = (Wire().exchange(query=b"fieldManager=a") for _ in range(2))
    first.query["fieldManager"] = ["b"]
    assert [dict(one.parameters.values) for one in (first, second)] == [{"fieldManager": ["b"]}, {"fieldManager": ("a",)}]
    assert second.query == {"fieldManager": ["a"]}


async def test_parameters_of_no_query_stay_empty():
    """What a request without a query makes of its parameters is not seen by another one."""
    first, second = Wire().exchange(), Wire().exchange()
    assert first.parameters.values == {}
    first.query["dryRun"] = ["All"]
    assert first.parameters.values == {"dryRun": ["All"]}
    assert (second.query, second.parameters.values) == ({}, {})
