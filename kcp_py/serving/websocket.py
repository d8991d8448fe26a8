"""`WatchSocket`: uvicorn's WebSocket protocol for connections on which only the server has something to say.

What clients send is checked for its form and its size and thrown away. A client that sends and does not read is cut off before the answers
to its pings fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from kcp_py.serving.ending import LINGER, Unread
from kcp_py.serving.seats import Seat

_MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024
"""More waits to be sent only where the client keeps asking for it: a stream stops far below, behind one event of at most 3 MiB."""


class WatchSocket(WebSocketsSansIOProtocol):
    """One connection, taken over from the HTTP protocol behind the head of its request."""

    seat: Seat | None = None
    reads_body: Final = False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.seat is not None:
            self.seat.leave()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self.transport.abort()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            # uvicorn would log that there was no answer, which any client could fill the log with.
            self.handshake_complete = True

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(LINGER, self._abort_when_flushed, Unread())

    def _abort_when_flushed(self, unread: Unread) -> None:
        if self.disconnected:
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent and not unread.stands_still(unsent):
            self.loop.call_later(LINGER, self._abort_when_flushed, unread)
        else:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Nothing is kept, so that parts of messages cannot pile up."""

    def handle_text(self, event: Frame) -> None:
        """As `handle_cont`."""

    def handle_bytes(self, event: Frame) -> None:
        """As `handle_cont`."""


def request_head(scope: Mapping[str, Any]) -> bytes:
    """The head of a request as it would be sent, for the parser of WebSocket handshakes."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    lines = [b"GET %b HTTP/1.1\r\n" % target, *(b"%b: %b\r\n" % header for header in scope["headers"]), b"\r\n"]
    return b"".join(lines)
