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

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from kcp_py.serving.cycle import Cycle, Flow, Prefixes
from kcp_py.serving.feeding import Feeding, TooManyFieldsError
from kcp_py.serving.framing import FRAMING_FIELDS, framing, split_target
from kcp_py.serving.heads import HeadBytes, LargeHeads
from kcp_py.serving.intake import CLOSED, DRAIN_BYTES, NO_TIMER, Intake
from kcp_py.serving.records import RECORD_BYTES, Buffer, Records
from kcp_py.serving.seats import Seat

Callback = Callable[[], None]

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Of what clients send over WebSocket; beyond that the connection is closed with 1009."""
MAX_FIELDS: Final = 16_384
"""Header fields of a request: each is an object, and a megabyte could hold 200,000 of them."""

_BODILESS: Final = frozenset(("GET", "HEAD"))
"""Methods whose bodies are of no use: reading goes on, by which the end of the connection is seen."""
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_NAME: Final = itemgetter(0)
_HOST: Final = [b"host"]


class Connection(Feeding):
    """One client connection. Use a subclass made by `connection_class`, which sets the limits."""

    # The interpreter shares the keys of instances' dictionaries up to 30 of them, which uvicorn's 28 and these would exceed: 1.3 KB more.
    __slots__ = (
        "_callbacks",
        "_idle_since",
        "_idle_timer",
        "seat",
    )

    max_head_bytes: ClassVar[int]
    prefixes: ClassVar[Prefixes]

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

    def _end(self) -> None:
        super()._end()
        self._idle_since = None

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
                raise TooManyFieldsError

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
        fields = [header for header in headers if header[0] in FRAMING_FIELDS]
        length, expects_continue = (0, False) if version == "1.1" and [*map(_NAME, fields)] == _HOST else framing(fields, version)
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
        from kcp_py.serving.websocket import WatchSocket, request_head  # noqa: PLC0415  # few servers ever need it

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
        if isinstance(reader, Records):
            transport.set_protocol(Records(socket, self.buffer))
            reader.leave()
        else:
            transport.set_protocol(socket)
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


def _nothing() -> None:
    """Taking back a registration of a connection that is gone."""
