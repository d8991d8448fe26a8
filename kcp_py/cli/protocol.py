"""`Connection`: uvicorn's HTTP/1.1 protocol with what the application needs to know of the connection, and with limits on what is read.

Every request's `scope["state"]` has:

* `peer_certificate`: `bytes | None`, the client certificate in DER, already verified against the accepted authorities;
* `on_disconnect`: `Callable[[Callable[[], None]], Callable[[], None]]`. Registers a function that is called once when the connection is
  lost (soon, where it already is), and returns a function that takes the registration back. With it a watch needs no task that waits in
  `receive()`. Connections are kept alive over many requests: whoever registers takes it back when the request ends.

Requests on one connection are parsed and answered one after the other. `Intake` says how much is read of each, and how long that may take.
Trailer fields are dropped: no field of a trailer section may act as a header (RFC 9110, 6.5.1).
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kcp_py.cli.cycle import Cycle, Flow, Header, Prefixes
from kcp_py.cli.heads import HeadBytes, LargeHeads
from kcp_py.cli.intake import BODY, CLOSED, DRAIN_BYTES, DRAIN_SECONDS, DRAIN_TIMER, DRAINING, HEAD, NO_TIMER, WAITING, Intake
from kcp_py.cli.records import DISCARDED_BYTES, RECORD_BYTES, Buffer, Records, discard
from kcp_py.cli.seats import Seat, client_of

Callback = Callable[[], None]

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Of what clients send over WebSocket; beyond that the connection is closed with 1009."""
MAX_FIELDS: Final = 16_384
"""Header fields of a request: each is an object, and a megabyte could hold 200,000 of them."""
UNREAD_BYTES: Final = 8 * 1024
"""The longest part of a chunked body that is still parsed where the request was answered without a look at it."""
LINGER: Final = 0.5
"""Seconds that a client has to read an answer before the connection is closed with bytes of it unread, and to answer the end of TLS."""

_BODILESS: Final = frozenset(("GET", "HEAD"))
"""Methods whose bodies are of no use: reading goes on, by which the end of the connection is seen."""
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS: Final = frozenset(("1.1", "1.0"))
_FRAMING: Final = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))
_LAST_WRITE: Final = 0.01
_NAME: Final = itemgetter(0)
_HOST: Final = [b"host"]
_MAX_LINGERS: Final = 20
_PIECES: Final = 8
"""Pieces of a chunked body that are parsed in one turn of the event loop."""
_HEAD_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_TOO_MANY_HEADS: Final = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_INVALID_BODY: Final = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Invalid HTTP request received.",'
    b'"reason":"BadRequest","code":400}\n'
)
_INVALID: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (
    len(_INVALID_BODY),
    _INVALID_BODY,
)


class _TooManyFieldsError(Exception):
    """Raised in a callback of the parser."""


class Connection(HttpToolsProtocol):
    """One client connection. Use a subclass made by `connection_class`, which sets the limits."""

    # The interpreter shares the keys of instances' dictionaries up to 30 of them, which uvicorn's 28 and these would exceed: 1.3 KB more.
    __slots__ = (
        "_callbacks",
        "_head_bytes",
        "_held",
        "_idle_since",
        "_idle_timer",
        "_intake",
        "_linger_timer",
        "_timer",
        "_timer_kind",
        "_upgrading",
        "seat",
    )

    max_head_bytes: ClassVar[int]
    head_timeout: ClassVar[float]
    prefixes: ClassVar[Prefixes]
    buffer: ClassVar[Buffer]
    head_bytes: ClassVar[HeadBytes]
    large_heads: ClassVar[LargeHeads]
    long_framings: ClassVar[LargeHeads]

    cycle: Cycle
    flow: Flow

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # Requests wait as bytes, not parsed, and an empty deque takes 760 bytes.
        self.pipeline = ()  # type: ignore[assignment]
        self._callbacks: dict[object, Callback] | None = {}
        self.seat: Seat | None = None
        self._upgrading = False
        self._intake = Intake(self.max_head_bytes)
        # Received of a head that is not complete.
        self._head_bytes = 0
        # Received and not parsed yet.
        self._held = b""
        self._timer: TimerHandle | None = None
        self._timer_kind = NO_TIMER
        self._linger_timer: TimerHandle | None = None
        self._idle_since: float | None = None
        self._idle_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        super().connection_made(transport)
        self.flow = Flow(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            transport.set_protocol(Records(self, self.buffer))
            # What is not decrypted yet waits at the client. Transports without TLS do not have this method.
            transport.set_read_buffer_limits(RECORD_BYTES)  # type: ignore[attr-defined]
        self.app_state = {
            **self.app_state,
            "peer_certificate": None if tls is None else tls.getpeercert(binary_form=True),
            "on_disconnect": self._on_disconnect,
        }
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.seat is not None:
            self.seat.leave()
        self._intake.close()
        self._held = b""
        self._give_head_bytes_back()
        self._stop_timer()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.large_heads.leave(self)
        self.long_framings.leave(self)
        callbacks, self._callbacks = self._callbacks, None
        # The last request's state, too.
        self.cycle = None  # type: ignore[assignment] # as before the first request
        # The state holds a method of this object: without this, only the cycle collector would free the connection.
        self.app_state = {}
        for callback in (callbacks or {}).values():
            callback()

    def shutdown(self) -> None:
        super().shutdown()
        self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed)

    @property
    def reads_body(self) -> bool:
        """Whether what comes next belongs to a body that the application has asked for."""
        return self._intake.phase == BODY and self.cycle.asked

    def data_received(self, data: bytes) -> None:
        if self._head_bytes and not self._take_head_bytes(len(data)):
            return
        if self._held:
            self._held += data
        else:
            self._feed(data)

    def _feed(self, data: bytes, *, turn: bool = False) -> None:
        intake = self._intake
        size = len(data)
        start = pieces = 0
        while start < size and intake.phase != CLOSED:
            if intake.in_large_head and (pieces or not turn):
                self._hold(data[start:])
                self.large_heads.want(self)
                break
            if intake.phase != HEAD and self._waits(data, start, pieces=pieces, turn=turn):
                break
            if pieces == _PIECES:
                # Many chunks take several turns of the loop.
                self._hold(data[start:])
                self.loop.call_soon(self._feed_held)
                break
            end = intake.piece(data, start)
            if not end:
                self._refuse(_HEAD_TOO_LARGE)
                return
            try:
                self.parser.feed_data(data if end - start == size else data[start:end])
            except httptools.HttpParserUpgrade as upgrade:
                end = start + upgrade.args[0]
                if self._upgrading:
                    self._go_on_as_websocket(data[end:])
                    return
                # RFC 9110, 7.8: an upgrade may be ignored. What follows is then the next request.
            except httptools.HttpParserError as error:
                self._refuse(_HEAD_TOO_LARGE if isinstance(error.__context__, _TooManyFieldsError) else _INVALID)
                return
            start = end
            pieces += 1
        if intake.phase == HEAD and intake.in_head and not self._head_bytes and not self._take_head_bytes(size):
            return
        if intake.phase != WAITING or self._timer is not None:
            self._set_timer()

    def _waits(self, data: bytes, start: int, *, pieces: int, turn: bool) -> bool:
        """Hold what follows a head where it must not be parsed now."""
        intake = self._intake
        if intake.phase == WAITING:
            # Pipelined requests are parsed and answered one after the other.
            self._hold(data[start:])
            return True
        if intake.phase == BODY and self.cycle.on_asked is not None:
            # A chunked body is not parsed before it is wanted.
            self._hold(data[start:])
            self.cycle.long_body = len(data) - start > UNREAD_BYTES
            return True
        if intake.in_long_framing and (pieces == _PIECES or not turn):
            # Trailers and the like are of no use: the connections that send them share the time that one would get.
            self._hold(data[start:])
            self.long_framings.want(self)
            return True
        return False

    def _take_head_bytes(self, count: int) -> bool:
        """Count received bytes of a head that is not complete, or refuse the request."""
        if self.head_bytes.take(self._client_address(), count):
            self._head_bytes += count
            return True
        self._refuse(_TOO_MANY_HEADS)
        return False

    def _give_head_bytes_back(self) -> None:
        if self._head_bytes:
            self.head_bytes.give_back(self._client_address(), self._head_bytes)
            self._head_bytes = 0

    def _client_address(self) -> str:
        return client_of(self.client[0]) if self.client is not None else ""

    def take_turn(self) -> None:
        """Parse the next piece of a large head, or the next ones of a body of framing."""
        # Unlike large heads, such bodies have a place for the time that they wait only.
        self.long_framings.leave(self)
        data, self._held = self._held, b""
        if data:
            self.flow.release()
            self._feed(data, turn=True)

    def _hold(self, data: bytes) -> None:
        """Keep received bytes for later, and read no more until then."""
        self._held = data
        self.flow.hold()

    def _feed_held(self) -> None:
        data, self._held = self._held, b""
        if data:
            self.flow.release()
            self._feed(data)

    def _refuse(self, answer: bytes) -> None:
        """End the connection because of what the client sent, with an answer unless one has begun."""
        cycle = self.cycle
        if self._intake.phase == DRAINING:
            answer = b""
        elif cycle is not None and not cycle.response_complete:  # type: ignore[redundant-expr] # None before the first request
            if cycle.response_started:
                answer = b""
            # The application may be at work on the request: it cannot answer any more.
            cycle.disconnected = True
            cycle.message_event.set()
        if answer:
            self.transport.write(answer)
        self._end()

    def _end(self) -> None:
        """Close the connection once the client had time to read what was sent: a close with unread bytes resets the connection."""
        self._intake.close()
        self._held = b""
        self._give_head_bytes_back()
        self.large_heads.leave(self)
        self.long_framings.leave(self)
        self._stop_timer()
        self._idle_since = None
        self.flow.hold()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._linger_timer = self.loop.call_later(LINGER, self._close_after_linger)

    def _close_after_linger(self) -> None:
        if self.scheme == "https" and self.transport.get_read_buffer_size():  # type: ignore[attr-defined]
            # The end of TLS in order would decrypt what the client goes on sending.
            self._discard(self.loop.time() + LINGER, DISCARDED_BYTES)
            return
        self.transport.close()
        # TLS tells the client of the end with the next write, and would then read on for as long as the client does not answer.
        self._linger_timer = self.loop.call_later(_LAST_WRITE, self._abort_when_flushed)

    def _discard(self, until: float, most: int) -> None:
        """Throw away what the client sends: many read the answer behind the last byte, and only where they could send it."""
        gone = discard(self.transport.get_extra_info("socket").fileno(), self.buffer, most)
        if gone is None or gone >= most or self.loop.time() >= until:
            self.transport.abort()
        else:
            self._linger_timer = self.loop.call_later(_LAST_WRITE, self._discard, until, most - gone)

    def on_message_begin(self) -> None:
        self._intake.begin()
        self._idle_since = None
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        # Behind the head the parser finds trailer fields.
        if headers is not None:
            headers.append((name.lower(), value))
            if len(headers) > MAX_FIELDS:
                raise _TooManyFieldsError

    def on_headers_complete(self) -> None:
        if self._timer is not None:
            self._stop_timer()
        if self._intake.in_large_head:
            self.large_heads.leave(self)
        if self._head_bytes:
            self._give_head_bytes_back()
        parser = self.parser
        version = parser.get_http_version()
        headers, self.headers = self.headers, None  # type: ignore[assignment] # no list for trailer fields
        framing = [header for header in headers if header[0] in _FRAMING]
        length, expects_continue = (0, False) if version == "1.1" and [*map(_NAME, framing)] == _HOST else _framing(framing, version)
        if parser.should_upgrade() and length != 0:
            # The parser knows no body of such requests, and would take it for the next request, which was somebody else's to write.
            raise ValueError("a request to upgrade the connection that has a body")
        raw_path, query = split_target(self.url)
        path = raw_path.decode("ascii")
        earlier = self.cycle
        if earlier is not None and not earlier.response_complete:  # type: ignore[redundant-expr] # None before the first request
            raise ValueError("a request in the middle of another one")
        cycle = self.cycle = Cycle(
            {
                "type": "http",
                "asgi": _ASGI,
                "http_version": version,
                "server": self.server,
                "client": self.client,
                "scheme": self.scheme,
                "root_path": "",
                "method": parser.get_method().decode("ascii"),
                "path": unquote(path) if "%" in path else path,
                "raw_path": raw_path,
                "query_string": query,
                "headers": headers,
                "state": self.app_state.copy(),
            },
            self.transport,
            self.flow,
            self.prefixes,
            self.server_state.default_headers,
            expects_continue,
            version != "1.0" and parser.should_keep_alive(),
            self.on_response_complete,
        )
        if length is None:
            if cycle.scope["method"] not in _BODILESS:
                cycle.on_asked = self._feed_held
        elif length > DRAIN_BYTES:
            cycle.long_body = True
            if cycle.scope["method"] not in _BODILESS:
                # Until the application asks for the body, which it does of those who may send one.
                self.flow.pause_reading()
        self._intake.head_complete(length)
        # Only watches go on over WebSocket; for anything else the wish is ignored.
        if b"watch" in self.url and parser.should_upgrade() and self._wants_websocket(version):
            self._upgrading = True
            return
        self._start_asgi_task(cycle, self.app)

    def _wants_websocket(self, version: str) -> bool:
        scope = self.cycle.scope
        if scope["method"] != "GET" or version != "1.1":
            return False
        return dict(scope["headers"])[b"upgrade"].strip().lower() == b"websocket"

    def _go_on_as_websocket(self, rest: bytes) -> None:
        """Hand the connection over.

        Args:
            rest: what came behind the head.
        """
        # Few servers ever need it.
        from kcp_py.cli.websocket import WatchSocket, request_head

        scope = self.cycle.scope
        # The cycle does not see the end of the connection any more, nor does whoever is registered for it: over WebSocket it is read.
        state = {name: value for name, value in self.app_state.items() if name != "on_disconnect"}
        self.connections.discard(self)
        self._stop_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        # What holds this object and is held by it: without this, only the cycle collector would free the three.
        self.app_state = {}
        self.parser = None  # type: ignore[assignment] # as uvicorn does
        del self.cycle
        transport = self.transport
        reader = transport.get_protocol()
        socket = WatchSocket(self.config, self.server_state, state, self.loop)
        socket.seat = self.seat
        socket.connection_made(transport)
        transport.set_protocol(socket)
        if isinstance(reader, Records):
            reader.leave()
        socket.data_received(request_head(scope) + rest)

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle.response_complete:
            return
        self._intake.payload(len(body))
        if self._timer is not None:
            self._stop_timer()
        if cycle.received(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        self._intake.complete()
        if cycle.response_complete:
            # It was answered before it came to its end.
            self._stop_timer()
            self._wait_for_next()
        else:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        intake = self._intake
        if self.transport.is_closing() or intake.phase == CLOSED:
            return
        if self.cycle is not None and self.cycle.lingers:  # type: ignore[redundant-expr] # None in tests
            self._end()
            return
        if intake.answered():
            self._wait_for_next()
        else:
            self._set_timer()
        if self._held:
            self.loop.call_soon(self._feed_held)
        elif self.flow.read_paused:
            self.flow.resume_reading()

    def _wait_for_next(self) -> None:
        # One timer looks after the connection for as long as it lives: making and cancelling one with every request costs more.
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is not None:
            left = self._idle_since + self.timeout_keep_alive - self.loop.time()
            if left > 0:
                self._idle_timer = self.loop.call_later(left, self._close_if_idle)
            else:
                self.timeout_keep_alive_handler()

    def _on_disconnect(self, callback: Callback) -> Callback:
        if self._callbacks is None:
            self.loop.call_soon(callback)
            return _nothing
        registration = object()
        self._callbacks[registration] = callback
        return partial(self._forget, registration)

    def _forget(self, registration: object) -> None:
        if self._callbacks is not None:
            self._callbacks.pop(registration, None)

    def _abort_when_flushed(self, lingers: int = 0) -> None:
        closing = self.transport.is_closing()
        if closing and (lingers == _MAX_LINGERS or not self.transport.get_write_buffer_size()):
            self.transport.abort()
        else:
            self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed, lingers + closing)

    def _set_timer(self) -> None:
        """Let the timer run that the state asks for, and no other."""
        kind = self._intake.timer
        if kind == self._timer_kind:
            return
        self._stop_timer()
        self._timer_kind = kind
        if kind == DRAIN_TIMER:
            self._timer = self.loop.call_later(DRAIN_SECONDS, self._end)
        elif kind:
            self._timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _stop_timer(self) -> None:
        self._timer_kind = NO_TIMER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connection_class(*, max_head_bytes: int, head_timeout: float) -> type[Connection]:
    """A `Connection` with these limits: bytes of request line and headers together, seconds until they are complete.

    The size is checked between reads, so up to one read (256 KiB) more may be buffered. The same limits hold for trailer sections and for
    the chunk sizes and extensions between two parts of a body.
    """
    limits = {
        "max_head_bytes": max_head_bytes,
        "head_timeout": head_timeout,
        "prefixes": Prefixes(),
        "buffer": Buffer(),
        "head_bytes": HeadBytes(),
        "large_heads": LargeHeads(),
        "long_framings": LargeHeads(places=None),
    }
    return type("LimitedConnection", (Connection,), {**limits, "__slots__": ()})


def _framing(headers: list[Header], version: str) -> tuple[int | None, bool]:
    """How the body of a request is framed.

    Args:
        headers: those of `_FRAMING` in a head that the parser took: it has compared Content-Length with Transfer-Encoding.
        version: of HTTP.

    Returns:
        The length of the body in bytes, None for a chunked one; whether the client waits for `100 Continue`.

    Raises:
        ValueError: the head has more than one meaning. Raised in a callback of the parser, it becomes 400.
    """
    if version not in _VERSIONS:
        raise ValueError("another version of HTTP")
    hosts = 0
    length: int | None = 0
    expects_continue = False
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            # RFC 9112, 6.1: other codings are not supported, and HTTP/1.0 has none.
            if value.strip().lower() != b"chunked" or version == "1.0":
                raise ValueError("a transfer coding that is not supported")
            length = None
        elif value.lower() == b"100-continue":
            # RFC 9110, 10.1.1: ignored in HTTP/1.0.
            expects_continue = version != "1.0"
    if hosts != 1 and (hosts or version != "1.0"):
        # RFC 9112, 3.2: which host is meant must not depend on who reads the head.
        raise ValueError("no or more than one Host")
    return length, expects_continue


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """The raw path and the raw query of a request target.

    Args:
        target: as the parser of requests lets it through, without control characters and spaces.

    Raises:
        ValueError: it is no URL, or has a fragment.
        httptools.HttpParserError: the same.
    """
    if b"#" in target:
        # RFC 9112, 3.2: a target has no fragment. uvicorn would cut it off where a proxy in front may not, and they would disagree.
        raise ValueError("the request target has a fragment")
    if target.startswith(b"/") and target.isascii():
        path, _, query = target.partition(b"?")
        return path, query
    parsed = httptools.parse_url(target)
    return parsed.path, parsed.query or b""


def _nothing() -> None:
    """Taking back a registration of a connection that is gone."""
