"""`Cycle`: one request and its response on a connection, with the response's head and body in one write where both are known.

ASGI lets a server hold the head back until the first part of the body is there. Nearly every answer of an API server has a known length and
is sent at once, so that its head and body leave in one write: one system call, and one TLS record instead of two. Everything unusual
(streams, responses without a Content-Length, HEAD, headers of rare names, a body in parts or of the wrong length) is written by uvicorn's
own cycle, with the same rules as ever.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Transport
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

Header = tuple[bytes, bytes]

_LOGGER: Final = logging.getLogger("uvicorn.error")
_ACCESS_LOGGER: Final = logging.getLogger("uvicorn.access")

_KNOWN_NAMES: Final = frozenset(
    (
        b"audit-id",
        b"cache-control",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"etag",
        b"location",
        b"retry-after",
        b"vary",
        b"warning",
        b"x-content-type-options",
    )
)
"""Names that are known to be well-formed and say nothing about how the message is framed, but for Content-Length."""
_CONTROL: Final = bytes((*range(9), *range(10, 32), 127))
"""What no header value may hold (RFC 9110, 5.5), a line's own end included: everything that could end a header early."""
_PIECE_BYTES: Final = 512 * 1024
"""Larger bodies go out in pieces of this size."""
_JOINED_BYTES: Final = 64 * 1024
"""Larger bodies are not copied behind their heads."""


class Prefixes:
    """The beginning of every head, up to the headers that are the same for all responses of the moment, such as Date."""

    __slots__ = ("_headers", "_heads", "_lines")

    def __init__(self) -> None:
        self._headers: list[Header] | None = None
        self._lines = b""
        self._heads: dict[int, bytes] = {}

    def of(self, status: int, headers: list[Header]) -> bytes:
        """The status line and these headers.

        Args:
            status: 100 to 599.
            headers: the server's own; when others are due, they come in another list.

        Raises:
            RuntimeError: a header that is none.
        """
        if headers is not self._headers:
            for name, value in headers:
                if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                    raise RuntimeError("Invalid default header.")
            self._lines = b"".join([b"%b: %b\r\n" % header for header in headers])
            self._headers = headers
            self._heads = {}
        head = self._heads.get(status)
        if head is None:
            head = self._heads[status] = STATUS_LINE[status] + self._lines
        return head


class Signal:
    """An `asyncio.Event` that is not made before somebody waits: for most requests nobody does."""

    __slots__ = ("_event", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._event: asyncio.Event | None = None

    def set(self) -> None:
        self.is_set = True
        if self._event is not None:
            self._event.set()

    def clear(self) -> None:
        self.is_set = False
        if self._event is not None:
            self._event.clear()

    async def wait(self) -> None:
        if not self.is_set:
            if self._event is None:
                self._event = asyncio.Event()
            await self._event.wait()


class Flow(FlowControl):
    """uvicorn's flow control of a connection, with such a signal: most connections never have to wait for their client to read."""

    # Not in the instances' dictionaries, which are compared with uvicorn's.
    __slots__ = ("_held",)

    def __init__(self, transport: Transport) -> None:
        # The same attributes as those of uvicorn's, whose methods work with them; a test compares the two.
        self._transport = transport
        self.read_paused = False
        self.write_paused = False
        self._is_writable_event = Signal()  # type: ignore[assignment] # all that is called of it
        self._is_writable_event.set()
        self._held = False

    def hold(self) -> None:
        """Stop reading until `release`, also where a part of the body is asked for."""
        self._held = True
        self.pause_reading()

    def release(self) -> None:
        """End `hold`."""
        self._held = False
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self._held:
            super().resume_reading()


class Cycle(RequestResponseCycle):
    """uvicorn's cycle with a short way for whole responses.

    Attributes:
        asked: whether the application has asked for the body.
        long_body: whether the request's body is too long to be read behind the answer.
        lingers: whether the connection ends behind the answer because of what the client may still send. The answer says so, and it is for
            `on_response` to close the connection, not at once.
        on_asked: called once when the application asks for the body for the first time, or starts an answer of unknown length; None for
            nothing.
    """

    asked = False
    long_body = False
    lingers = False
    on_asked: Callable[[], None] | None = None

    def __init__(  # noqa: PLR0917 # made with every request, where keywords cost
        self,
        scope: Any,
        transport: Transport,
        flow: FlowControl,
        prefixes: Prefixes,
        default_headers: list[Header],
        expect_100_continue: bool,  # noqa: FBT001
        keep_alive: bool,  # noqa: FBT001
        on_response: Callable[[], None],
    ) -> None:
        # The same attributes as those of uvicorn's cycle, whose other methods work with them; a test compares the two.
        self.scope = scope
        self.transport = transport
        self.flow = flow
        self.logger = _LOGGER
        self.access_logger = _ACCESS_LOGGER
        self.access_log = False
        self.default_headers = default_headers
        self.message_event = Signal()  # type: ignore[assignment] # all that is called of it
        self.on_response = on_response
        self.disconnected = False
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expect_100_continue
        self.body: bytes | bytearray = b""  # type: ignore[assignment] # a bytearray from the second part on
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self.chunked_encoding: bool | None = None
        self.expected_content_length = 0
        self._prefixes = prefixes
        self._head: bytes | None = None

    def received(self, body: bytes) -> int:
        """Take a part of the request's body; the bytes that wait to be read are returned."""
        waiting = self.body
        if not waiting:
            self.body = body
        elif isinstance(waiting, bytearray):
            waiting += body
        else:
            self.body = bytearray(waiting) + body
        self.message_event.set()
        return len(self.body)

    async def receive(self) -> Any:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            self.asked = True
            self._ask()
            if self.flow.read_paused:
                self.flow.resume_reading()
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = self.body, b""
        return {"type": "http.request", "body": bytes(body), "more_body": self.more_body}

    def _ask(self) -> None:
        if self.on_asked is not None:
            asked, self.on_asked = self.on_asked, None
            asked()

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        if len(body) > _PIECE_BYTES and not self.disconnected:
            # What is handed to the connection at once is copied and encrypted at once, and stays there until the client has read it.
            last = (len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
            for start in range(0, last, _PIECE_BYTES):
                await self._send({"type": message["type"], "body": body[start : start + _PIECE_BYTES], "more_body": True})
                await asyncio.sleep(0)
            message = {**message, "body": body[last:]}
        await self._send(message)

    async def _send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head = self._head
        if head is not None:
            self._head = None
            body = message.get("body", b"")
            if message["type"] == "http.response.body" and len(body) == self.expected_content_length and not message.get("more_body"):
                if len(body) <= _JOINED_BYTES:
                    self.transport.write(head + body)
                else:
                    self.transport.write(head)
                    self.transport.write(body)
                self.expected_content_length = 0
                self.response_complete = True
                self.message_event.set()
                if not self.keep_alive:
                    self.transport.close()
                self.on_response()
                return
            self.transport.write(head)
        elif not self.response_started and message["type"] == "http.response.start":
            if self.more_body and (self.long_body or self.waiting_for_100_continue):
                # RFC 9112, 9.6, and RFC 9110, 10.1.1: the rest is not read, or it is not known whether there will be one.
                self.keep_alive = False
            if not self._hold(message):
                await super().send(message)
                # The answer may take long, and the body is read behind any answer.
                self._ask()
            if self.more_body and not self.keep_alive:
                self.lingers = True
                self.keep_alive = True
            return
        await super().send(message)

    def _hold(self, message: Any) -> bool:
        """Keep the head of an ordinary response until its body is there; False for any other one, which is not touched."""
        headers = message.get("headers", ())
        if not isinstance(headers, list):
            return False
        by_name = dict(headers)
        length = by_name.get(b"content-length", b"")
        if len(by_name) != len(headers) or not length.isdigit() or not _KNOWN_NAMES.issuperset(by_name) or self.scope["method"] == "HEAD":
            return False
        lines = b"\r\n".join([b": ".join(header) for header in headers])
        if len(lines.translate(None, _CONTROL)) != len(lines) - 2 * len(headers) + 2:
            # Some value holds a line's end or another control character; uvicorn's cycle refuses it.
            return False
        end = b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n"
        head = b"".join((self._prefixes.of(message["status"], self.default_headers), lines, end))
        self._head = head
        self.expected_content_length = int(length)
        self.chunked_encoding = False
        self.response_started = True
        self.waiting_for_100_continue = False
        return True
