"""What `RequestReader` finds in received bytes."""

from __future__ import annotations

from typing import Final

Header = tuple[bytes, bytes]


class Event:
    """A part of a request, or the end of reading."""

    __slots__ = ()


class Request(Event):
    """The head of a request.

    Attributes:
        method: as sent.
        raw_path: of the target, not decoded; without control characters and spaces.
        query: of the target, not decoded.
        version: `1.0` or `1.1`.
        headers: names in lower case, in the order in which they came.
        length: of the body in bytes; None for a chunked one.
        expects_continue: whether the client waits for `100 Continue` before it sends the body.
        keep_alive: whether the client may send a further request on the connection.
        upgrade: whether the client offers to change the protocol behind this request, which may be ignored (RFC 9110, 7.8).
    """

    __slots__ = ("expects_continue", "headers", "keep_alive", "length", "method", "query", "raw_path", "upgrade", "version")

    def __init__(  # noqa: PLR0917 # made with every request, where keywords cost
        self,
        method: bytes,
        raw_path: bytes,
        query: bytes,
        version: str,
        headers: list[Header],
        length: int | None,
        expects_continue: bool,  # noqa: FBT001
        keep_alive: bool,  # noqa: FBT001
        upgrade: bool,  # noqa: FBT001
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.query = query
        self.version = version
        self.headers = headers
        self.length = length
        self.expects_continue = expects_continue
        self.keep_alive = keep_alive
        self.upgrade = upgrade


class Data(Event):
    """A part of the body. Never empty."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class EndOfMessage(Event):
    """The request is complete. Trailer fields are dropped: none of them may act as a header (RFC 9110, 6.5.1)."""

    __slots__ = ()


class Refusal(Event):
    """The request is malformed or exceeds a limit. Nothing more is read.

    Attributes:
        response: the bytes to answer with, where no response has begun; empty where there can be none.
    """

    __slots__ = ("response",)

    def __init__(self, response: bytes) -> None:
        self.response = response


class ConnectionClosed(Event):
    """The client has ended its side of the connection, and no response is owed. Nothing more is read."""

    __slots__ = ()


END_OF_MESSAGE: Final = EndOfMessage()
CONNECTION_CLOSED: Final = ConnectionClosed()
