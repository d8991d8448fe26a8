"""`WebSocket`: a request over ASGI's `websocket` in the form of other requests, and the messages that are sent when it is granted.

Watches (k8s.io/apiserver `endpoints/handlers/watch.go`, `HandleWS`) and streaming subresources go on over WebSocket. Until then the request
is like any other, and so is every answer but the granted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from kcp_py.apimachinery.errors import StatusError, bad_request
from kcp_py.authn.websocket import Subprotocols, split_subprotocols
from kcp_py.golang.urls import UrlError, check_request_uri

_REFUSAL: Final = "websocket.http.response"
_NORMAL: Final = 1000
_TWO_WAY: Final = "kcp_py.two_way"
"""By it the server of this package learns that messages of the client are read. Other ASGI servers always pass them on."""


class WebSocket:
    """One connection. What the client of a watch sends is read and thrown away, as upstream does."""

    __slots__ = ("_offered", "_prefix", "_read", "_receive", "_refusable", "_send", "_text", "subprotocols")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._offered: list[str] = list(scope.get("subprotocols") or ())
        self._refusable = _REFUSAL in (scope.get("extensions") or {})
        self._read = False
        self._text = True
        self._prefix = 0
        self.subprotocols = Subprotocols(None, ())
        """Known from `split` on."""

    def scope(self, scope: Scope) -> Scope:
        """The scope of the request as one of HTTP."""
        scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", ""), "http")
        return {**scope, "type": "http", "method": "GET", "scheme": scheme, "state": scope.get("state") or {}}

    # The request

    async def receive(self) -> Message:
        """The empty body of the request, then the end of the connection, once it comes."""
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (await self._receive())["type"] != "websocket.disconnect":
            pass
        return {"type": "http.disconnect"}

    def split(self) -> Subprotocols:
        """The token and the subprotocols that the client offers.

        Raises:
            StatusError: 401.
        """
        self.subprotocols = split_subprotocols(self._offered)
        return self.subprotocols

    # An answer that is not sent over WebSocket

    async def send(self, message: Message) -> None:
        """Send a part of an HTTP response instead; a server that cannot closes the connection, which is a 403."""
        if self._refusable:
            await self._send({**message, "type": message["type"].replace("http.response", _REFUSAL, 1)})
        elif message["type"] == "http.response.start":
            await self._send({"type": "websocket.close", "code": 1008})

    # The stream

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Look at the handshake as golang.org/x/net/websocket does: browsers say where they come from, and at most one protocol is chosen.

        Raises:
            StatusError: 403 without an Origin that is a URI, 400 for several subprotocols.
        """
        try:
            check_request_uri(headers.get(b"origin", b"").decode())
        except (UrlError, UnicodeDecodeError):
            raise StatusError(403, "Forbidden", "forbidden: a WebSocket request needs an Origin header that is a URI") from None
        if len(self.subprotocols.others) > 1:
            raise bad_request("a WebSocket request must not offer several subprotocols")

    async def accept(self, content_type: bytes, prefix: int) -> None:
        """Go on over WebSocket.

        Args:
            content_type: of the messages: JSON goes in text messages, anything else in binary ones.
            prefix: bytes at the beginning of each frame of the stream that give its length, and that messages do without.
        """
        self._text = content_type == b"application/json"
        self._prefix = prefix
        others = self.subprotocols.others
        await self._pass({"type": "websocket.accept", "subprotocol": others[0] if others and others[0] else None, "headers": []})

    async def message(self, frame: bytes) -> None:
        """Send one event. Returns once the connection takes more; after a disconnect it does nothing."""
        if self._text:
            await self._pass({"type": "websocket.send", "text": frame.decode()})
        else:
            await self._pass({"type": "websocket.send", "bytes": frame[self._prefix :]})

    async def open(self, protocol: str, *, text: bool) -> None:
        """Go on over WebSocket in both directions.

        Args:
            protocol: the subprotocol; empty for none.
            text: whether `message` sends text.
        """
        self._text = text
        await self._pass({"type": "websocket.accept", "subprotocol": protocol or None, "headers": [], _TWO_WAY: True})

    async def read(self) -> bytes | None:
        """The next message of the client; None when it has left."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return None
            if message["type"] == "websocket.receive":
                data: bytes | None = message.get("bytes")
                return data if data is not None else message.get("text", "").encode()

    async def close(self, code: int = _NORMAL) -> None:
        """End the connection."""
        await self._pass({"type": "websocket.close", "code": code})

    async def _pass(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:
            # ASGI has servers raise this when the client is gone; `receive` reports it to the handler.
            return
