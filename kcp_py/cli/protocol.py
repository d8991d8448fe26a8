"""`Connection`: uvicorn's HTTP/1.1 protocol with what the application needs to know of the connection, and with limits on request heads.

Every request's `scope["state"]` has:

* `peer_certificate`: `bytes | None`, the client certificate in DER, already verified against the accepted authorities;
* `on_disconnect`: `Callable[[Callable[[], None]], Callable[[], None]]`. Registers a function that is called once when the connection is
  lost (soon, where it already is), and returns a function that takes the registration back. With it a watch needs no task that waits in
  `receive()`. Connections are kept alive over many requests: whoever registers takes it back when the request ends.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kcp_py.cli.cycle import Cycle, Flow, Prefixes

Callback = Callable[[], None]

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Of what clients send over WebSocket; beyond that the connection is closed with 1009."""
LINGER: Final = 0.5
"""Seconds that a client has to answer the end of TLS when the server stops: idle ones may not answer, and asyncio waits for 30."""

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS: Final = frozenset(("1.1", "1.0"))
_BODY: Final = frozenset((b"content-length", b"transfer-encoding"))
_HEAD_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


_INVALID_BODY: Final = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Invalid HTTP request received.",'
    b'"reason":"BadRequest","code":400}\n'
)
_INVALID: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (
    len(_INVALID_BODY),
    _INVALID_BODY,
)


class Connection(HttpToolsProtocol):
    """One client connection. Use a subclass made by `connection_class`, which sets the limits."""

    # The interpreter shares the keys of instances' dictionaries up to 30 of them, which uvicorn's 28 and these would exceed: 1.3 KB more.
    __slots__ = ("_callbacks", "_head_bytes", "_head_timer", "_idle_since", "_idle_timer", "_linger_timer", "_reading_head", "_upgrading")

    max_head_bytes: ClassVar[int]
    head_timeout: ClassVar[float]
    prefixes: ClassVar[Prefixes]

    cycle: Cycle

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # Few connections have more than one request at a time, and an empty deque takes 760 bytes.
        self.pipeline = ()  # type: ignore[assignment]
        self._callbacks: dict[object, Callback] | None = {}
        self._reading_head = False
        self._upgrading = False
        self._head_bytes = 0
        self._head_timer: TimerHandle | None = None
        self._linger_timer: TimerHandle | None = None
        self._idle_since: float | None = None
        self._idle_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        super().connection_made(transport)
        self.flow = Flow(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app_state = {
            **self.app_state,
            "peer_certificate": None if tls is None else tls.getpeercert(binary_form=True),
            "on_disconnect": self._on_disconnect,
        }
        self._head_timer = self.loop.call_later(self.head_timeout, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_head_timer()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        callbacks, self._callbacks = self._callbacks, None
        # The state holds a method of this object: without this, only the cycle collector would free the connection.
        self.app_state = {}
        for callback in (callbacks or {}).values():
            callback()

    def shutdown(self) -> None:
        super().shutdown()
        self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed)

    def data_received(self, data: bytes) -> None:
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.max_head_bytes:
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
                return
        self._idle_since = None
        self._feed(data)
        if self._reading_head and self._head_timer is None and self.transport is not None:
            self._head_timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if self._upgrading:
                    self._go_on_as_websocket(data)
                    return
                # RFC 9110, 7.8: an upgrade may be ignored. What follows is then the next request.
            except httptools.HttpParserError:
                self.send_400_response("")
                return
            else:
                return

    def send_400_response(self, msg: str) -> None:
        del msg
        self.transport.write(_INVALID)
        self.transport.close()

    def on_message_begin(self) -> None:
        self._reading_head = True
        self._head_bytes = 0
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        self._reading_head = False
        if self._head_timer is not None:
            self._stop_head_timer()
        parser = self.parser
        version = parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        if (len(hosts) != 1 and (hosts or version != "1.0")) or version not in _VERSIONS:
            # RFC 9112, 3.2: which host is meant must not depend on who reads the head. Raised here, the parser makes it a 400.
            raise ValueError("no or more than one Host, or another version of HTTP")
        if parser.should_upgrade() and any(name in _BODY and value != b"0" for name, value in self.headers):
            # The parser knows no body of such requests, and would take it for the next request, which was somebody else's to write.
            raise ValueError("a request to upgrade the connection that has a body")
        raw_path, query = split_target(self.url)
        path = raw_path.decode("ascii")
        cycle = Cycle(
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
                "headers": self.headers,
                "state": self.app_state.copy(),
            },
            self.transport,
            self.flow,
            self.prefixes,
            self.server_state.default_headers,
            self.expect_100_continue,
            version != "1.0" and parser.should_keep_alive(),
            self.on_response_complete,
        )
        earlier, self.cycle = self.cycle, cycle
        # Only watches go on over WebSocket; for anything else the wish is ignored.
        if b"watch" in self.url and parser.should_upgrade() and self._wants_websocket(earlier):
            self._upgrading = True
            return
        if earlier is None or earlier.response_complete:  # type: ignore[redundant-expr] # None before the first request
            self._start_asgi_task(cycle, self.app)
        else:
            # Pipelined requests are answered one after the other.
            self.flow.pause_reading()
            if not self.pipeline:
                self.pipeline = deque()
            self.pipeline.appendleft((cycle, self.app))

    def _wants_websocket(self, earlier: Cycle | None) -> bool:
        """Whether the request is for a WebSocket, and the connection free for one."""
        scope = self.cycle.scope
        if scope["method"] != "GET" or scope["http_version"] != "1.1" or not (earlier is None or earlier.response_complete):
            return False
        return dict(self.headers)[b"upgrade"].strip().lower() == b"websocket"

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
        self._stop_head_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        # What holds this object and is held by it: without this, only the cycle collector would free the three.
        self.app_state = {}
        self.parser = None  # type: ignore[assignment] # as uvicorn does
        del self.cycle
        transport = self.transport
        socket = WatchSocket(self.config, self.server_state, state, self.loop)
        socket.connection_made(transport)
        transport.set_protocol(socket)
        socket.data_received(request_head(scope) + rest)

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if not cycle.response_complete and cycle.received(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
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

    def _abort_when_flushed(self) -> None:
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def connection_class(*, max_head_bytes: int, head_timeout: float) -> type[Connection]:
    """A `Connection` with these limits: bytes of request line and headers together, seconds until they are complete.

    The size is checked between reads, so up to one read (256 KiB) more may be buffered.
    """
    limits = {"max_head_bytes": max_head_bytes, "head_timeout": head_timeout, "prefixes": Prefixes()}
    return type("LimitedConnection", (Connection,), {**limits, "__slots__": ()})


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
