"""`ResponseWriter`: one response, as the bytes that are written. A state machine without I/O.

The head of a response with a known length is held back until its body is there, so that both leave in one write: one system call, and one
record of TLS instead of two. Nearly every response of an API server is of that kind. Everything unusual (streams, responses without a
Content-Length, HEAD, headers of rare names, a body in parts) is written as it comes.

Sources: RFC 9112, sections 6 and 7; the field order is that of uvicorn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from kcp_py.serving.http1.events import Header

_INVALID_NAME: Final = re.compile(b'[\x00-\x1f\x7f()<>@,;:\\[\\]={} \t\\\\"]')
_INVALID_VALUE: Final = re.compile(b"[\x00-\x08\x0a-\x1f\x7f]")
_CONTROL: Final = bytes((*range(9), *range(10, 32), 127))
"""What no header value may hold (RFC 9110, 5.5), the end of a line included: everything that could end a header early."""
_ORDINARY_NAMES: Final = frozenset(
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
"""Names that are well-formed and say nothing about how the message is framed, but for Content-Length."""
_BODILESS: Final = frozenset((204, 304))
_JOINED_BYTES: Final = 64 * 1024
"""Larger bodies are not copied behind their heads."""
_NOTHING: Final = ()
_UNTIL_END: Final = -1
_WHOLE: Final = b"content-length: %d\r\n\r\n"
_WHOLE_CLOSE: Final = b"content-length: %d\r\nconnection: close\r\n\r\n"
_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_STATUS_LINES: Final = {code: b"HTTP/1.1 %d %b\r\n" % (code, _PHRASES.get(code, b"")) for code in range(100, 600)}


class ResponseError(RuntimeError):
    """What the application sends is not a response."""


class HeadCache:
    """The beginning of every head, up to the headers that are the same for all responses of the moment, such as Date."""

    __slots__ = ("_headers", "_heads", "_lines")

    def __init__(self) -> None:
        self._headers: Sequence[Header] | None = None
        self._lines = b""
        self._heads: dict[int, bytes] = {}

    def get(self, status: int, headers: Sequence[Header]) -> bytes:
        """The status line and these headers.

        Args:
            status: 100 to 599.
            headers: those of the server. Changed ones come in another list.

        Raises:
            ResponseError: a header is malformed.
        """
        if headers is not self._headers:
            self._lines = b"".join(map(_line, headers))
            self._headers = headers
            self._heads = {}
        head = self._heads.get(status)
        if head is None:
            head = self._heads[status] = _STATUS_LINES[status] + self._lines
        return head


class ResponseWriter:
    """One response.

    Attributes:
        keep_alive: whether the connection goes on behind the response.
        started: whether the application has given a head.
        complete: whether the application has given all of the body.
        error: why the response cannot be completed; None where it can.
    """

    __slots__ = ("_cache", "_chunked", "_chunks", "_head", "_is_head", "_left", "complete", "error", "keep_alive", "started")

    def __init__(
        self,
        method: str,
        cache: HeadCache,
        keep_alive: bool,  # noqa: FBT001 - made with every request, where keywords cost
        chunks: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Begin.

        Args:
            method: of the request.
            cache: shared by the responses of a server.
            keep_alive: whether the client allows that the connection goes on.
            chunks: whether the client knows chunked bodies. For one that does not, the end of the connection is the end of a body of
                unknown length (RFC 9112, 6.1 and 6.3).
        """
        self._is_head = method == "HEAD"
        self._cache = cache
        self.keep_alive = keep_alive
        self.started = False
        self.complete = False
        self.error: str | None = None
        self._head: bytes | None = None
        self._chunked = False
        self._chunks = chunks
        # Bytes of the body that the head promises; `_UNTIL_END` where the connection ends behind it.
        self._left = 0

    def start(self, status: int, headers: Sequence[Header], defaults: Sequence[Header]) -> bytes:
        """Take the head of the response.

        Args:
            status: 100 to 599.
            headers: of the application.
            defaults: headers of the server, which come first.

        Returns:
            The bytes to write now; empty if the head waits for the body.

        Raises:
            ResponseError: a header is malformed.
        """
        self.started = True
        if not self._is_head and type(headers) is list:
            by_name = dict(headers)
            length = by_name.get(b"content-length", b"")
            if len(by_name) == len(headers) and length.isdigit() and _ORDINARY_NAMES.issuperset(by_name):
                lines = b"\r\n".join(map(b": ".join, headers))
                # Between two headers is one end of a line, and none is in a value.
                if len(lines.translate(None, _CONTROL)) == len(lines) - 2 * len(headers) + 2:
                    end = b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n"
                    self._head = b"".join((self._cache.get(status, defaults), lines, end))
                    self._left = int(length)
                    return b""
        return self._general_head(status, (*defaults, *headers))

    def whole(self, status: int, lines: bytes, body: bytes, defaults: Sequence[Header]) -> bytes | None:
        """Take all of the response at once.

        Args:
            status: 200 to 599, of a response with a body.
            lines: header fields in the form `name: value` with the end of a line behind each. The caller vouches for the names and values.
                None of them is Content-Length or says how the message is framed.
            body: the whole.
            defaults: headers of the server, which come first.

        Returns:
            The bytes to write; None where `start` and `body` have to be used.
        """
        if self.started or self._is_head or len(body) > _JOINED_BYTES:
            return None
        self.started = self.complete = True
        end = _WHOLE if self.keep_alive else _WHOLE_CLOSE
        return b"".join((self._cache.get(status, defaults), lines, end % len(body), body))

    def _general_head(self, status: int, headers: Sequence[Header]) -> bytes:
        lines = [_STATUS_LINES[status]]
        framed = closes = False
        for header in headers:
            lines.append(_line(header))
            name, value = header[0].lower(), header[1]
            if name == b"content-length" and not framed:
                self._left = int(value)
                framed = True
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self._left = 0
                framed = self._chunked = True
            elif name == b"connection" and b"close" in [token.strip() for token in value.lower().split(b",")]:
                self.keep_alive = False
                closes = True
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        if not framed and not self._is_head and status not in _BODILESS:
            if self._chunks:
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self._left = _UNTIL_END
        lines.append(b"\r\n")
        return b"".join(lines)

    @property
    def takes_chunks(self) -> bool:
        """Whether the body is in progress and in chunks, so that they may also be written without `body`."""
        return self._chunked and not self.complete and not self._is_head

    def body(self, data: bytes, *, more: bool) -> Sequence[bytes]:
        """Take a part of the body.

        Args:
            data: the part.
            more: whether further ones follow.

        Returns:
            The bytes to write now, each with a write of its own. Then `error` may be set.
        """
        head = self._head
        if head is not None:
            self._head = None
            if len(data) == self._left and not more:
                self._left = 0
                self.complete = True
                return (head + data,) if len(data) <= _JOINED_BYTES else (head, data)
            return (head, *self.body(data, more=more))
        if not self.started or self.complete:
            self.error = "a part of a body comes before the head of the response or behind its end"
            return _NOTHING
        found: Sequence[bytes] = _NOTHING
        if self._is_head:
            self._left = 0
        elif self._chunked:
            chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            found = (chunk if more else chunk + b"0\r\n\r\n",)
        elif self._left == _UNTIL_END:
            self.complete = not more
            return (data,)
        elif len(data) > self._left:
            self.error = "the body is longer than Content-Length"
            return _NOTHING
        else:
            self._left -= len(data)
            found = (data,)
        if not more:
            if self._left:
                self.error = "the body is shorter than Content-Length"
            else:
                self.complete = True
        return found


def _line(header: Header) -> bytes:
    name, value = header
    if _INVALID_NAME.search(name) or _INVALID_VALUE.search(value):
        raise ResponseError("a header is malformed")
    return b"%b: %b\r\n" % (name.lower(), value)
