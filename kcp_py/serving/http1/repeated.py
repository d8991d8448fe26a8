"""`RepeatedFields`: the header section that a client sends with every request of a connection, recognized without parsing it again.

Clients of APIs send the same bytes behind the request lines of their reads: host, token, user agent, accepted types. The parser has already
accepted these bytes, on this connection, as the header section of a request without a body. What they mean depends on nothing else for the
methods and the version that are accepted here. So a second request whose head ends with exactly these bytes needs a check of its request
line alone, and the result is that of the parser.

A section is kept when it comes the second time: connections with one request, such as that of a watch, keep a number.
"""

from __future__ import annotations

from typing import Final

from kcp_py.serving.http1.events import Header, Request
from kcp_py.serving.http1.limits import CHUNKED_SLICE_BYTES

LONGEST_HEAD: Final = CHUNKED_SLICE_BYTES
"""Longer heads are parsed each time."""

_METHODS: Final = frozenset((b"GET", b"HEAD", b"DELETE"))
_VERSION: Final = b"HTTP/1.1\r\n"
_TARGET: Final = bytes(byte for byte in range(0x21, 0x7F) if byte != 0x23)
"""What may be in a target: visible characters but `#`, for which `head.split_target` has rules of its own."""


class RepeatedFields:
    """The last header section of one connection.

    Attributes:
        known: whether there is a section to compare with.
    """

    __slots__ = ("_headers", "_section", "_seen", "known")

    def __init__(self) -> None:
        self.known = False
        self._section = b""
        self._headers: list[Header] = []
        # The hash of a section that came once.
        self._seen = 0

    def learn(self, data: bytes, request: Request) -> None:
        """Take note of a request that the parser has read.

        Args:
            data: exactly the bytes of the request, which has no body.
            request: what the parser found.
        """
        if request.version != "1.1" or not request.keep_alive or request.upgrade or request.method not in _METHODS:
            return
        if len(data) > LONGEST_HEAD or not data.startswith(b"/", data.find(b" ") + 1):
            # In absolute form the target changes the headers.
            return
        section = data[data.find(b"\n") + 1 :]
        seen = hash(section)
        if seen != self._seen:
            self._seen = seen
            return
        self._section = section
        self._headers = request.headers.copy()
        self.known = True

    def forget(self) -> None:
        """Keep nothing."""
        self.known = False
        self._section = b""
        self._headers = []
        self._seen = 0

    def read(self, data: bytes) -> Request | None:
        """The request that received bytes are, if they are a whole one with the known section; else None.

        Args:
            data: begins with the first byte of a request.
        """
        section = self._section
        if len(data) > LONGEST_HEAD or not data.endswith(section):
            return None
        words = data[: -len(section)].split(b" ")
        if len(words) != 3:
            return None
        method, target, version = words
        if method not in _METHODS or version != _VERSION or not target.startswith(b"/") or target.translate(None, _TARGET):
            return None
        path, _, query = target.partition(b"?")
        # Of the application, which may change it.
        return Request(method, path, query, "1.1", self._headers.copy(), 0, False, True, False)
