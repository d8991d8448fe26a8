"""`WatchSocket`: WebSocket (RFC 6455) on connections on which, as a rule, only the server has something to say.

The rules are those of `websockets.server.ServerProtocol`, which does no I/O. What clients send is checked for its form and its size. It is
thrown away, unless the application asks for it when it accepts (`TWO_WAY`); it is not read faster than it is taken. A client that sends and
does not read is cut off before the answers to its pings fill the memory.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

import structlog
from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from kcp_py.serving.clientauthorities import PeerCertificate
from kcp_py.serving.connectionlimits import ConnectionSlot
from kcp_py.serving.context import ServerContext
from kcp_py.serving.disconnection import DisconnectCallbacks
from kcp_py.serving.flow import LazyEvent
from kcp_py.serving.http1.closing import LINGER_SECONDS, StallDetector

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Of what clients send; beyond that the connection is closed with 1009."""
CLOSE_SECONDS: Final = 10.0
"""How long a client may take to answer the end of a stream."""

TWO_WAY: Final = "kcp_py.two_way"
"""The key of `websocket.accept` with which an application asks for what the client sends."""
_MAX_WAITING_MESSAGES: Final = 16
"""Messages of the client that wait for the application. With more, the connection is not read."""

_PROBE_SECONDS: Final = 15.0
"""While a connection is not read, pings find out so often whether the client is still there."""

_MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024
"""More waits to be sent only where the client keeps asking for it: a stream stops far below, behind one event of at most 3 MiB."""
_ASGI: Final = {"version": "3.0", "spec_version": "2.4"}

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.serving")


class WatchSocket(asyncio.Protocol):
    """One connection, taken over from the HTTP protocol behind the head of its request."""

    reads_body: Final = False

    def __init__(
        self, context: ServerContext, scope: Mapping[str, Any], slot: ConnectionSlot | None, *, peer: PeerCertificate | None = None
    ) -> None:
        """Begin.

        Args:
            context: of the server.
            scope: of the HTTP request.
            slot: left when the connection is lost.
            peer: the client certificate of the connection; None where it has none.
        """
        self._context = context
        self._peer = peer
        self.slot = slot
        self._callbacks = DisconnectCallbacks(context.loop)
        offered = [value.decode("latin-1") for name, value in scope["headers"] if name == b"sec-websocket-protocol"]
        self._scope: dict[str, Any] = {
            **scope,
            "type": "websocket",
            "asgi": _ASGI,
            "scheme": "wss" if scope["scheme"] == "https" else "ws",
            "subprotocols": [token.strip() for value in offered for token in value.split(",")],
            "extensions": {"websocket.http.response": {}},
            # Messages that nothing takes may wait in front of the end of the connection.
            "state": {**scope.get("state", {}), "on_disconnect": self._callbacks.register},
        }
        del self._scope["method"]
        self._protocol = ServerProtocol(max_size=MAX_MESSAGE_BYTES)
        # What the client is answered where the application accepts.
        self._response: Response | None = None
        # What the application answers over HTTP instead.
        self._refusal: tuple[int, Headers, bytes] | None = None
        self._accepted = False
        self._ended = False
        self._lost = False
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._two_way = False
        self._fragments: list[bytes] = []
        self._paused = False
        self._probe: TimerHandle | None = None
        self._writable = LazyEvent()
        self._writable.set()
        self._timer: TimerHandle | None = None
        self._stall: StallDetector | None = None

    def start(self, transport: asyncio.Transport, received: bytes) -> None:
        """Answer the handshake.

        Args:
            transport: of the connection.
            received: bytes behind the head of the request.
        """
        self.transport = transport
        self._context.state.connections.add(self)
        self.data_received(request_head(self._scope) + received)

    # What the transport reports

    def data_received(self, data: bytes) -> None:
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._begin(event)
            elif isinstance(event, Frame) and event.opcode is Opcode.CLOSE:
                self._closed_by_client()
            elif isinstance(event, Frame) and self._two_way and event.opcode in _DATA:
                self._take(event)
        if protocol.parser_exc is not None:
            # The client does not speak the protocol, or sends too much: the reason is part of the last frame.
            self._end(protocol.close_sent.code if protocol.close_sent is not None else CloseCode.ABNORMAL_CLOSURE)
        else:
            # Answers to pings.
            self._flush()
        if self.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self.transport.abort()

    def _take(self, frame: Frame) -> None:
        """Keep a part of a message of the client; the last one makes it whole."""
        self._fragments.append(bytes(frame.data))
        if not frame.fin:
            return
        self._messages.put_nowait({"type": "websocket.receive", "bytes": b"".join(self._fragments)})
        self._fragments.clear()
        if self._messages.qsize() > _MAX_WAITING_MESSAGES and not self._paused:
            self._paused = True
            self.transport.pause_reading()
            self._probe = self._context.loop.call_later(_PROBE_SECONDS, self._ping)

    def _ping(self) -> None:
        """Write something: the end of a connection that is not read shows in nothing else."""
        if not self._ended and not self.transport.is_closing():
            self._protocol.send_ping(b"")
            self._flush()
            self._probe = self._context.loop.call_later(_PROBE_SECONDS, self._ping)

    def _read_on(self) -> None:
        self._paused = False
        if self._probe is not None:
            self._probe.cancel()
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._lost = True
        self._messages.put_nowait({"type": "websocket.disconnect", "code": 1005 if self._accepted else 1006})
        self._callbacks.call()
        self._context.state.connections.discard(self)
        self._writable.set()
        self._cancel_timer()
        if self._probe is not None:
            self._probe.cancel()
        if self.slot is not None:
            self.slot.release()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        """The server stops: tell the client and close, once it has read what it was sent or does not read on."""
        if self._accepted and not self._ended:
            self._protocol.send_close(CloseCode.SERVICE_RESTART)
            self._end(CloseCode.SERVICE_RESTART)
        elif not self._accepted and self._refusal is None:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error")
        self.transport.close()
        self._stall = StallDetector()
        self._cancel_timer()
        self._timer = self._context.loop.call_later(LINGER_SECONDS, self._abort_when_flushed)

    def end_if_revoked(self) -> bool:
        """End the connection when the authority of the client's certificate is not accepted any more. Returns whether that is so."""
        revoked = self._peer is not None and self._peer.is_revoked()
        if revoked:
            self.transport.abort()
        return revoked

    def _abort_when_flushed(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if not self._lost and self._stall is not None and unsent and not self._stall.is_stalled(unsent):
            self._timer = self._context.loop.call_later(LINGER_SECONDS, self._abort_when_flushed)
        elif not self._lost:
            self.transport.abort()

    # The handshake and its end

    def _begin(self, request: Request) -> None:
        response = self._protocol.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._accepted = self._ended = True
            self._protocol.send_response(response)
            self._flush()
            self.transport.close()
            return
        self._response = response
        self._messages.put_nowait({"type": "websocket.connect"})
        state = self._context.state
        task = self._context.loop.create_task(self._run())
        state.tasks.add(task)
        task.add_done_callback(state.tasks.discard)

    async def _run(self) -> None:
        try:
            await self._context.app(self._scope, self.receive, self.send)
        except ConnectionError:
            # Raised by `send`: the client is gone.
            pass
        except asyncio.CancelledError:
            self._fail()
            raise
        except Exception:  # noqa: BLE001 - logged; a fault of the application must not leave the client without an answer
            _log.exception("application_failed")
            self._fail()
        else:
            if not self._accepted and self._refusal is None and not self.transport.is_closing():
                _log.error("application_failed", reason="the application returned without an answer to a WebSocket handshake")
                self._fail()
        if self._timer is None:
            self.transport.close()

    def _fail(self) -> None:
        if not self._accepted and self._refusal is None:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error")

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._accepted = self._ended = True
        self._protocol.send_response(self._protocol.reject(status, text))
        self._flush()
        self.transport.close()

    def _closed_by_client(self) -> None:
        if self._ended:
            # The answer to the end of the stream.
            self._cancel_timer()
            self.transport.close()
        elif not self.transport.is_closing():
            self._end(self._protocol.close_rcvd.code if self._protocol.close_rcvd is not None else CloseCode.NO_STATUS_RCVD)

    def _end(self, code: int) -> None:
        """Send the last frame and close."""
        self._messages.put_nowait({"type": "websocket.disconnect", "code": code})
        self._callbacks.call()
        self._ended = True
        self._flush()
        self.transport.close()

    def _flush(self) -> None:
        """Write what the protocol wants to send, unless the connection ends already."""
        for data in self._protocol.data_to_send():
            if data and not self.transport.is_closing():
                self.transport.write(data)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ASGI

    async def receive(self) -> dict[str, Any]:
        """`websocket.connect`, then messages of the client where they are asked for, then `websocket.disconnect`."""
        message = await self._messages.get()
        if self._paused and self._messages.qsize() <= _MAX_WAITING_MESSAGES:
            self._read_on()
        return message

    async def send(self, message: Any) -> None:
        """Write a message. Returns once the connection takes more.

        Raises:
            ConnectionError: the client is gone.
        """
        await self._writable.wait()
        if self._lost or (not self._accepted and self.transport.is_closing()):
            raise ConnectionResetError
        kind = message["type"]
        if self._refusal is not None:
            self._add_refusal(message)
        elif self._ended:
            raise ConnectionResetError
        elif not self._accepted:
            self._answer(kind, message)
        else:
            self._send(kind, message)

    def _answer(self, kind: str, message: Any) -> None:
        """Answer the handshake."""
        response = self._response
        assert response is not None
        if kind == "websocket.accept":
            # The server's own headers have the date.
            del response.headers["Date"]
            response.headers.update(_text((*self._context.state.default_headers, *message.get("headers", ()))))
            if message.get("subprotocol"):
                response.headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
            self._accepted = True
            self._two_way = bool(message.get(TWO_WAY))
            self._protocol.send_response(response)
            self._flush()
        elif kind == "websocket.close":
            self._messages.put_nowait({"type": "websocket.disconnect", "code": 1006})
            self._refuse(HTTPStatus.FORBIDDEN, "")
        elif kind == "websocket.http.response.start":
            self._refusal = (message["status"], Headers(_text(message.get("headers", ()))), b"")
        else:
            raise RuntimeError(f"not an answer to a WebSocket handshake: {kind}")

    def _add_refusal(self, message: Any) -> None:
        """Take a part of an answer over HTTP, and send all of it when it is complete."""
        assert self._refusal is not None
        status, headers, body = self._refusal
        body += message.get("body", b"")
        self._refusal = (status, headers, body)
        if message.get("more_body", False) or self._ended:
            return
        headers.setdefault("Date", formatdate(usegmt=True))
        headers.setdefault("Connection", "close")
        headers.setdefault("Content-Length", str(len(body)))
        headers.setdefault("Content-Type", "text/plain; charset=utf-8")
        phrase = HTTPStatus(status).phrase if status in _STATUSES else ""
        self._protocol.send_response(Response(status, phrase, headers, body))
        self._end(1006)

    def _send(self, kind: str, message: Any) -> None:
        """Send a message of the stream, or its end."""
        protocol = self._protocol
        try:
            if kind == "websocket.close":
                if self.transport.is_closing():
                    return
                code = message.get("code", 1000)
                self._messages.put_nowait({"type": "websocket.disconnect", "code": code})
                protocol.send_close(code, message.get("reason") or "")
                self._ended = True
                self._timer = self._context.loop.call_later(CLOSE_SECONDS, self.transport.close)
            elif message.get("bytes") is not None:
                protocol.send_binary(message["bytes"])
            else:
                protocol.send_text(message["text"].encode())
        except InvalidState:
            raise ConnectionResetError from None
        self._flush()


_STATUSES: Final = frozenset(HTTPStatus)
_DATA: Final = frozenset((Opcode.TEXT, Opcode.BINARY, Opcode.CONT))


def _text(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]


def request_head(scope: Mapping[str, Any]) -> bytes:
    """The head of a request as it would be sent, for the parser of WebSocket handshakes."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    lines = [b"GET %b HTTP/1.1\r\n" % target, *(b"%b: %b\r\n" % header for header in scope["headers"]), b"\r\n"]
    return b"".join(lines)
