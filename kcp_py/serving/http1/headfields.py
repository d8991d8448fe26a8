"""`HeadFields`: the target and the header fields of a request, collected from the parser's reports."""

from __future__ import annotations

import httptools

from kcp_py.serving.http1.events import Header, Request
from kcp_py.serving.http1.head import FRAMING_FIELDS, body_framing, host_of, split_target
from kcp_py.serving.http1.limits import MAX_FIELDS
from kcp_py.serving.http1.refusals import TooManyFieldsError


class HeadFields:
    """The head that is read now. `on_url` and `on_header` are for the parser.

    Attributes:
        headers: those that have come; None behind the head, where fields are those of a trailer section.
    """

    __slots__ = ("_last_fields", "_target", "headers")

    def __init__(self) -> None:
        self._target = b""
        self.headers: list[Header] | None = None
        # The framing fields of the last request that had a Host and nothing else of them; None before one had.
        self._last_fields: list[Header] | None = None

    def on_url(self, url: bytes) -> None:
        """A part of the request target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a field of a trailer section, which is dropped.

        Raises:
            TooManyFieldsError: the head has more than `MAX_FIELDS`.
        """
        headers = self.headers
        if headers is not None:
            # RFC 9112, 5.1: space around a value does not belong to it. The parser removes the space before it.
            headers.append((name.lower(), value.rstrip(b" \t")))
            if len(headers) > MAX_FIELDS:
                raise TooManyFieldsError

    def complete(self, parser: httptools.HttpRequestParser, method: bytes) -> Request:
        """The request with this head, which is complete.

        Args:
            parser: which has just read the head.
            method: where the parser has another name for it; else empty.

        Raises:
            ValueError: the head has more than one meaning, or a target that nothing has.
            ExpectationError: as `body_framing`.
        """
        headers = self.headers
        assert headers is not None
        self.headers = None
        version = parser.get_http_version()
        fields = [header for header in headers if header[0] in FRAMING_FIELDS]
        length: int | None = 0
        expects_continue = False
        if fields != self._last_fields or version != "1.1":
            length, expects_continue = body_framing(fields, version)
            if len(fields) == 1 and fields[0][0] == b"host":
                self._last_fields = fields
        upgrade = parser.should_upgrade()
        if upgrade and length != 0:
            # The parser sees no body in such requests. It would take the body for the next request, which an attacker may have written.
            raise ValueError("a request to upgrade the connection has a body")
        target, self._target = self._target, b""
        raw_path, query = split_target(target)
        if not target.startswith(b"/"):
            headers = [*(header for header in headers if header[0] != b"host"), (b"host", host_of(target))]
        keep_alive = version != "1.0" and parser.should_keep_alive()
        expects_continue = expects_continue and length != 0
        return Request(method or parser.get_method(), raw_path, query, version, headers, length, expects_continue, keep_alive, upgrade)
