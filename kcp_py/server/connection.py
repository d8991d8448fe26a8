"""`Connection`: a request to a streaming subresource, and the stream that answers it, over chunked HTTP or over WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.registry.writerequest import Resolved
from kcp_py.request.context import RequestContext
from kcp_py.server.exchange import Exchange
from kcp_py.server.responsehead import TEXT, Header

_PARTS_OF_SUBRESOURCE: Final = 3
"""Resource, name, subresource."""
_WAITING: Final = 16
"""Messages of the client that wait to be read. With more, its connection is not read."""


class Connection:
    """One request of one client. The function that serves it answers once: with `respond`, or with `start` and what follows.

    Until it has answered it may raise a `StatusError`, which becomes the answer. It is cancelled when the client leaves, when the logical
    cluster goes, when the caller loses the right to the request, and when the server stops.
    """

    def __init__(self, exchange: Exchange, target: Resolved, query: Mapping[str, Sequence[str]]) -> None:
        """Begin.

        Args:
            exchange: the request.
            target: what it is for.
            query: its parameters, as plugins have left them.
        """
        self._exchange = exchange
        self._socket = exchange.websocket
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self.context: Final[RequestContext] = exchange.context
        """Who asks for what."""
        self.target: Final = target
        """The logical cluster, the resource, the namespace and the name."""
        self.method: Final = exchange.method
        self.query: Final[Mapping[str, Sequence[str]]] = query
        self.headers: Final[Mapping[bytes, bytes]] = exchange.headers
        """Lower-case name to value."""
        self.path: Final = "/".join(exchange.context.info.parts[_PARTS_OF_SUBRESOURCE:])
        """What follows the name of the subresource in the path, without the slash; empty for nothing."""
        self.protocol = ""
        """The subprotocol of a WebSocket that was chosen."""
        self.started = asyncio.Event()
        """Set when the answer begins."""

    @property
    def websocket(self) -> bool:
        """Whether the client asks for a WebSocket."""
        return self._socket is not None

    @property
    def protocols(self) -> Sequence[str]:
        """The subprotocols that the client offers, best first."""
        return [one for one in self._socket.subprotocols.others if one] if self._socket is not None else ()

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query says true, as `?follow=true` or `?follow=1`.

        Raises:
            StatusError: 400 for a value that is not a boolean.
        """
        text = self.query[name][0] if name in self.query else "false"
        if text.lower() not in {"", "0", "1", "f", "false", "t", "true"}:
            raise errors.bad_request(f'strconv.ParseBool: parsing "{text}": invalid syntax')
        return text.lower() in {"1", "t", "true"}

    async def read_body(self) -> bytes:
        """The whole body of the request.

        Raises:
            StatusError: 413.
        """
        return await self._exchange.read_body()

    async def respond(self, status: int, body: bytes, content_type: bytes = TEXT, headers: Iterable[Header] = ()) -> None:
        """Answer with one body."""
        await self._exchange.respond(status, body, content_type, headers)
        self.started.set()

    async def start(self, content_type: bytes = TEXT, *, protocol: str = "") -> None:
        """Begin the stream: status 200 and the headers, or the WebSocket.

        Args:
            content_type: of the stream. Over WebSocket, text goes in text messages, anything else in binary ones.
            protocol: the subprotocol of a WebSocket, one of `protocols`; empty for none.
        """
        if self._socket is None:
            await self._exchange.start_stream(content_type)
        else:
            self.protocol = protocol
            self._exchange.status = 101
            await self._socket.open(protocol, text=content_type.startswith(b"text/"))
        self.started.set()

    async def send(self, data: bytes | str) -> None:
        """Send more of the stream; over WebSocket, one message. Returns once the connection takes more."""
        chunk = data.encode() if isinstance(data, str) else data
        if self._socket is None:
            if chunk:
                await self._exchange.send_chunk(chunk)
            return
        self._exchange.sent_bytes += len(chunk)
        await self._socket.message(chunk)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The messages of a WebSocket's client, until it leaves. A request of HTTP has none."""
        while self._socket is not None and (message := await self._messages.get()) is not None:
            yield message

    async def pump(self) -> None:
        """Read what the client of the WebSocket sends, until it leaves."""
        assert self._socket is not None, "a request of HTTP has a body"
        while (message := await self._socket.read()) is not None:
            await self._messages.put(message)

    def end_of_messages(self) -> None:
        """Let `__aiter__` end."""
        if not self._messages.full():
            self._messages.put_nowait(None)
