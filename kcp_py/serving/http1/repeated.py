"""`RepeatedFields`: the header section that a client sends with every request of a connection, recognized without parsing it again.

Clients of APIs send the same bytes behind the request lines of their reads: host, token, user agent, accepted types. The parser has already
accepted these bytes, on this connection, as the header section of a request without a body. What they mean depends on nothing else for the
methods and the version that are accepted here. So a second request whose head ends with exactly these bytes needs a check of its request
line alone, and the result is that of the parser.

The section of a request with a body differs in the digits of its Content-Length. It is compared in two parts, before and behind them. The
body must have come as a whole, and nothing behind it.

A section is kept when it comes the second time: connections with one request, such as that of a watch, keep a number. There is one section
of requests without a body and one of those with a body, because clients read an object and write it back.
"""

from __future__ import annotations

import re
from typing import Final

from kcp_py.serving.http1.events import END_OF_MESSAGE, Data, EndOfMessage, Header, Request
from kcp_py.serving.http1.limits import CHUNKED_SLICE_BYTES

LONGEST_HEAD: Final = CHUNKED_SLICE_BYTES
"""Longer heads are parsed each time."""

_METHODS: Final = frozenset((b"GET", b"HEAD", b"DELETE"))
_BODY_METHODS: Final = frozenset((b"POST", b"PUT", b"PATCH", b"DELETE"))
_VERSION: Final = b"HTTP/1.1\r"
_TARGET: Final = bytes(byte for byte in range(0x21, 0x7F) if byte != 0x23)
"""What may be in a target: visible characters but `#`, for which `head.split_target` has rules of its own."""
_MOST_DIGITS: Final = 9
_LENGTH: Final = re.compile(rb"\ncontent-length:[ \t]*([1-9][0-9]{0,8})\r\n", re.IGNORECASE)
_ZERO: Final = 0x30

WholeRequest = tuple[Request, EndOfMessage] | tuple[Request, Data, EndOfMessage]
"""The events of a request that has come at once."""


class RepeatedFields:
    """The last header sections of one connection.

    Attributes:
        known: whether there is a section to compare with.
    """

    __slots__ = ("_after", "_before", "_body_headers", "_headers", "_length_at", "_section", "_seen", "_seen_body", "known")

    _section: bytes
    _before: bytes
    _after: bytes
    _headers: list[Header]
    _body_headers: list[Header]
    _length_at: int
    _seen: int
    _seen_body: int

    def __init__(self) -> None:
        self.known = False
        self.forget()

    def learn(self, head: bytes, request: Request) -> None:
        """Take note of a request that the parser has read.

        Args:
            head: exactly the bytes of its head.
            request: what the parser found.
        """
        if request.version != "1.1" or not request.keep_alive or request.upgrade or request.expects_continue:
            return
        if len(head) > LONGEST_HEAD or not head.startswith(b"/", head.find(b" ") + 1):
            # In absolute form the target changes the headers.
            return
        section = head[head.find(b"\n") :]
        if request.length:
            self._learn_body(section, request)
        elif request.length == 0 and request.method in _METHODS:
            seen = hash(section)
            if seen != self._seen:
                self._seen = seen
                return
            self._section = section
            self._headers = request.headers.copy()
            self.known = True

    def _learn_body(self, section: bytes, request: Request) -> None:
        found = _LENGTH.search(section)
        if found is None or request.method not in _BODY_METHODS:
            return
        position = [name for name, _ in request.headers].index(b"content-length")
        if int(found[1]) != request.length or request.headers[position][1] != found[1]:
            return
        before, after = section[: found.start(1)], section[found.end(1) :]
        seen = hash((before, after))
        if seen != self._seen_body:
            self._seen_body = seen
            return
        self._before, self._after = before, after
        self._body_headers, self._length_at = request.headers.copy(), position
        self.known = True

    def forget(self) -> None:
        """Keep nothing."""
        self.known = False
        self._section = self._before = self._after = b""
        self._headers = []
        self._body_headers = []
        # The place of Content-Length among them.
        self._length_at = 0
        # The hashes of sections that came once.
        self._seen = self._seen_body = 0

    def read(self, data: bytes) -> WholeRequest | None:
        """The events of the request that received bytes are, if they are a whole one with a known section; else None.

        Args:
            data: begins with the first byte of a request.
        """
        section = self._section
        if section and data.endswith(section):
            request = _request(data[: -len(section)], _METHODS, self._headers, 0) if len(data) <= LONGEST_HEAD else None
            return None if request is None else (request, END_OF_MESSAGE)
        before = self._before
        end_of_line = data.find(b"\n", 0, LONGEST_HEAD)
        if not before or end_of_line < 0 or not data.startswith(before, end_of_line):
            return None
        start = end_of_line + len(before)
        end = data.find(b"\r", start, start + _MOST_DIGITS + 1)
        digits = data[start:end]
        begin = end + len(self._after)
        if end < 0 or not digits.isdigit() or digits[0] == _ZERO or begin > LONGEST_HEAD or not data.startswith(self._after, end):
            return None
        length = len(data) - begin
        if length != int(digits):
            # Not all has come, or more than that.
            return None
        request = _request(data[:end_of_line], _BODY_METHODS, self._body_headers, length)
        if request is None:
            return None
        request.headers[self._length_at] = (b"content-length", digits)
        return request, Data(data[begin:]), END_OF_MESSAGE


def _request(line: bytes, methods: frozenset[bytes], headers: list[Header], length: int) -> Request | None:
    """The request with a request line, up to its last byte, and a known header section; None for a line that is not an ordinary one."""
    words = line.split(b" ")
    if len(words) != 3:
        return None
    method, target, version = words
    if method not in methods or version != _VERSION or not target.startswith(b"/") or target.translate(None, _TARGET):
        return None
    path, _, query = target.partition(b"?")
    # Of the application, which may change the list.
    return Request(method, path, query, "1.1", headers.copy(), length, False, True, False)
