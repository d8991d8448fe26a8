"""`Connection`: HTTP/1.1 on one connection, whose properties the application can see.

Every request's `scope["state"]` has:

* `peer_certificate`: `bytes | None`, the client certificate in DER, already verified against the accepted authorities; empty where its
  authority is not accepted for users, or not any more;
* `proxy_certificate`: `bytes | None`, the client certificate, if its authority is accepted for front proxies; absent without a certificate;
* `server_name`: `str`, the host name that the client sent in the TLS handshake; absent where it sent none;
* `on_disconnect`: `Callable[[Callable[[], None]], Callable[[], None]]`. Registers a function that is called once when the client leaves
  (soon, where it already has), and returns a function that takes the registration back. With it a watch needs no task that waits in
  `receive()`. Connections are kept alive over many requests: take the registration back when the request ends.

The rules are state machines of `http1`: this class feeds them with what arrives, does what they ask for, and has one timer for all of their
deadlines. Requests on one connection are parsed and answered one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kcp_py.serving.addresses import local_address, remote_address
from kcp_py.serving.clientauthorities import PeerCertificate
from kcp_py.serving.connectionlimits import ConnectionSlot
from kcp_py.serving.context import ServerContext
from kcp_py.serving.cycle import Cycle
from kcp_py.serving.deadlinetimer import DeadlineTimer
from kcp_py.serving.disconnection import DisconnectCallbacks
from kcp_py.serving.flow import FlowControl
from kcp_py.serving.http1.events import Data, EndOfMessage, Event, Refusal, Request
from kcp_py.serving.http1.reader import RequestReader
from kcp_py.serving.http1.refusals import TOO_MANY_HEADS
from kcp_py.serving.http1.responses import ResponseWriter
from kcp_py.serving.http1.states import Hold, State
from kcp_py.serving.parsingshare import ParsingShare
from kcp_py.serving.records import RECORD_BYTES, Records, ServerEnd
from kcp_py.serving.scope import http_scope
from kcp_py.serving.transportclosing import TransportClosing
from kcp_py.serving.upgrades import upgrade_of

if TYPE_CHECKING:
    from kcp_py.serving.tunnel import Tunnel
    from kcp_py.serving.websocket import WatchSocket

BUFFERED_BYTES: Final = 64 * 1024
"""Bytes of a body that are read before the application takes them."""

_HOLD_BODY: Final = Hold.BODY
_BODY: Final = State.BODY
_CLOSED: Final = State.CLOSED


class Connection(asyncio.Protocol):
    """One client connection."""

    __slots__ = (
        "__weakref__",
        "_app_state",
        "_callbacks",
        "_client",
        "_closing",
        "_context",
        "_cycle",
        "_hold",
        "_parsing",
        "_peer",
        "_reader",
        "_scheme",
        "_server",
        "_timer",
        "flow",
        "server_state",
        "slot",
        "transport",
    )

    transport: asyncio.Transport
    flow: FlowControl
    _parsing: ParsingShare
    _reader: RequestReader

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self.server_state = context.state
        self.slot: ConnectionSlot | None = None
        self._app_state: dict[str, Any] = {}
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int | None] | None = None
        self._scheme = "http"
        # Registered with `on_disconnect`.
        self._callbacks = DisconnectCallbacks(context.loop)
        # The hold of the reader that this connection has obeyed.
        self._hold: Hold | None = None
        self._peer: PeerCertificate | None = None
        self._cycle: Cycle | None = None
        # While the connection ends.
        self._closing: TransportClosing | None = None
        self._timer = DeadlineTimer(context.loop)

    # What the transport reports

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # only such transports are made
        context = self._context
        context.state.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        self._server = local_address(transport)
        self._client = remote_address(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._scheme = "https"
            transport.set_protocol(Records(self, context.buffer))
            # Data that is not decrypted yet waits at the client. Transports without TLS do not have this method.
            transport.set_read_buffer_limits(RECORD_BYTES)  # type: ignore[attr-defined]
            if (certificate := tls.getpeercert(binary_form=True)) is not None:
                self._peer = PeerCertificate(tls, certificate)
        self._app_state = {
            **context.app_state,
            "peer_certificate": None,
            "on_disconnect": self._callbacks.register,
        }
        if isinstance(tls, ServerEnd) and tls.server_name is not None:
            self._app_state["server_name"] = tls.server_name
        self._parsing = ParsingShare(context, self._client[0] if self._client is not None else "")
        self._reader = RequestReader(context.limits, context.loop.time())
        self._arm()

    def data_received(self, data: bytes) -> None:
        events = self._reader.receive(data, self._context.loop.time())
        if isinstance(events, list) or not events:
            self._handle(events)
        elif self._begin(events[0]):
            # A request that came at once. While it is answered, nothing is held, no deadline runs, and nothing is read behind a long body.
            assert self._cycle is not None
            self._cycle.take_whole(events[1].data if len(events) == 3 else b"")

    def eof_received(self) -> bool:
        """The client has ended its side. Returns whether the transport stays open: the client may still read its response."""
        # As in Go's net/http, where the context of a request ends with its client's side: a watch would not end otherwise.
        self._callbacks.call()
        self._handle(self._reader.receive_eof(self._context.loop.time()))
        return self._reader.state is not State.CLOSED

    def connection_lost(self, exc: Exception | None) -> None:
        context = self._context
        context.state.connections.discard(self)
        if self._cycle is not None:
            self._cycle.disconnect()
        # The last request's state, too.
        self._cycle = None
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        if self.slot is not None:
            self.slot.release()
        self._release()
        self._callbacks.call()

    def pause_writing(self) -> None:
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()

    @property
    def reads_body(self) -> bool:
        """Whether what comes next belongs to a body that the application has asked for."""
        return self._reader.state is _BODY and self._cycle is not None and self._cycle.body_wanted

    # What others ask for

    def shutdown(self) -> None:
        """The server stops: close an idle connection, any other one behind the response in progress."""
        if self._cycle is None or self._cycle.response.complete:
            self.transport.close()
        else:
            self._cycle.response.keep_alive = False
        self._end_steps().flush(self._context.loop.time())
        self._arm()

    def end_if_revoked(self) -> bool:
        """End a response that has begun, such as a watch, when the authority of the client's certificate is not accepted any more.

        Returns:
            Whether the certificate is revoked. The next request of an idle connection is answered.
        """
        revoked = self._peer is not None and self._peer.is_revoked()
        if revoked and self._cycle is not None and self._cycle.response.started and not self._cycle.response.complete:
            self.transport.abort()
        return revoked

    def take_turn(self) -> None:
        """Parse bytes that wait for a turn."""
        self._parsing.begin_framing_turn(self)
        self._resume(turn=True)

    # What the cycle asks for

    @property
    def abandons_body(self) -> bool:
        """Whether the rest of the request will not be read behind a response that begins now."""
        return self._reader.long_body

    @property
    def client_left(self) -> bool:
        """Whether the client has ended its side, of which the application was told."""
        return self._callbacks.called

    def want_body(self) -> None:
        """The application takes the body, or has begun an answer that may take long."""
        reader = self._reader
        if reader.hold is _HOLD_BODY:
            self._hold = None
            self.flow.release()
            self._handle(reader.want_body(self._context.loop.time()))
        else:
            reader.want_body(0.0)
        cycle = self._cycle
        if reader.deadline is None and cycle is not None and cycle.response.started:
            # A watch has no deadline, and there may be thousands of them. The timer is that of the request's head.
            reader.forget_fields()
            self._timer.stop()

    def response_complete(self) -> None:
        """All of the response is written: go on with the next request, or end the connection."""
        context = self._context
        context.state.total_requests += 1
        cycle = self._cycle
        reader = self._reader
        if cycle is None or reader.state is _CLOSED or self.transport.is_closing():
            return
        if cycle.lingers:
            self._end()
            return
        if not cycle.response.keep_alive:
            self.transport.close()
            return
        events = reader.response_complete(context.loop.time())
        deadline = reader.deadline
        if events or reader.hold is not self._hold or (deadline is not None and deadline < self._timer.at):
            self._handle(events)
        if reader.hold is not None:
            if reader.hold is Hold.RESPONSE or reader.hold is Hold.BODY:
                context.loop.call_soon(self._resume)
        elif self.flow.read_paused:
            self.flow.resume_reading()

    # What has been read

    def _handle(self, events: Sequence[Event]) -> None:
        """Carry out what the reader has found, and what it waits for now."""
        for event in events:
            if type(event) is Request:
                if not self._begin(event):
                    return
            elif type(event) is EndOfMessage:
                assert self._cycle is not None
                self._cycle.end_body()
            elif type(event) is Data:
                assert self._cycle is not None
                if not self._cycle.response.complete and self._cycle.add_body(event.data) > BUFFERED_BYTES:
                    self.flow.pause_reading()
            elif isinstance(event, Refusal):
                self._refuse(event.response)
                return
            else:
                # ConnectionClosed
                self.transport.close()
        reader = self._reader
        if reader.hold is not self._hold:
            self._wait(reader.hold)
        if reader.head_bytes != self._parsing.head_bytes and not self._parsing.count_head(reader.head_bytes):
            self._refuse(TOO_MANY_HEADS)
        deadline = reader.deadline
        if deadline is not None and deadline < self._timer.at:
            self._arm()

    def _wait(self, hold: Hold | None) -> None:
        """Let received bytes wait for what they must wait for, and receive no more meanwhile."""
        self._hold = hold
        if hold is None:
            return
        self.flow.hold()
        if hold is Hold.TURN:
            self._context.loop.call_soon(self._resume)
        elif hold is Hold.HEAD_TURN:
            self._parsing.want_head_turn(self)
        elif hold is Hold.FRAMING_TURN:
            self._parsing.want_framing_turn(self)

    def _resume(self, *, turn: bool = False) -> None:
        """Parse bytes that were held."""
        if self._reader.hold is not None:
            self._hold = None
            self.flow.release()
            self._handle(self._reader.resume(self._context.loop.time(), turn=turn))

    def _begin(self, request: Request) -> bool:
        """Start the application on a request. Returns whether the connection goes on with HTTP."""
        context = self._context
        if self._parsing.in_large_heads:
            self._parsing.head_complete(self)
        if self._peer is not None:
            self._app_state["peer_certificate"] = self._peer.current()
            self._app_state["proxy_certificate"] = self._peer.proxy()
        scope = http_scope(request, self._app_state, self._scheme, server=self._server, client=self._client)
        if request.upgrade and (upgrade := upgrade_of(request, context, scope, slot=self.slot, peer=self._peer)) is not None:
            upgrade.start(self.transport, self._hand_over(upgrade.protocol))
            return False
        method = scope["method"]
        response = ResponseWriter(method, context.heads, request.keep_alive, request.version != "1.0")
        cycle = self._cycle = Cycle(scope, self, response, request.expects_continue)
        if self._reader.long_body and method not in {"GET", "HEAD"}:
            # Until the application asks for the body, which it does of those who may send one.
            self.flow.pause_reading()
        cycle.start(context.answer_http, context.loop, context.state.tasks)
        return True

    def _hand_over(self, successor: WatchSocket | Tunnel) -> bytes:
        """Let another protocol have the connection. Returns bytes behind the head of the request."""
        context, transport = self._context, self.transport
        context.state.connections.discard(self)
        received = self._reader.close()
        self._release()
        reader = transport.get_protocol()
        if isinstance(reader, Records):
            transport.set_protocol(Records(successor, context.buffer))
            reader.leave()
        else:
            transport.set_protocol(successor)
        self.flow.release()
        return received

    # The end

    def _refuse(self, response: bytes) -> None:
        """End the connection because of what the client sent.

        Args:
            response: sent unless another one has begun; empty for none.
        """
        cycle = self._cycle
        if cycle is not None and not cycle.response.complete:
            if cycle.response.started:
                response = b""
            # The application may be at work on the request: it cannot answer any more.
            cycle.disconnect()
        if response:
            self.transport.write(response)
        self._end()

    def _end(self) -> None:
        """Read nothing more, and close the connection once the client had time to read the response."""
        self._release()
        self.flow.hold()
        self._end_steps().linger(self._context.loop.time())
        self._arm()

    def _end_steps(self) -> TransportClosing:
        if self._closing is None:
            self._closing = TransportClosing(self.transport, self._context.buffer)
        return self._closing

    def _release(self) -> None:
        """Release the reader, the places in budgets and queues, and the timer."""
        self._reader.release()
        self._parsing.release(self)
        self._closing = None
        self._timer.stop()

    # Deadlines

    def _arm(self) -> None:
        """Have the timer run at the next deadline, or before."""
        deadline = self._reader.deadline
        closing = self._closing.deadline if self._closing is not None else None
        if deadline is None or (closing is not None and closing < deadline):
            deadline = closing
        if deadline is not None:
            self._timer.set(deadline, self._on_timer)

    def _on_timer(self) -> None:
        now = self._context.loop.time()
        reader = self._reader
        if reader.deadline is not None and reader.deadline <= now:
            if reader.state is State.IDLE:
                reader.close()
                self.transport.close()
            elif reader.state is State.DRAINING:
                self._end()
            else:
                self.transport.abort()
                return
        if self._closing is not None:
            self._closing.step(now)
        self._arm()
