"""`Frames`: whole messages over a stream socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from kcp_py.storage.shared.messages import HEAD

LARGEST: Final = 1 << 30
"""Bytes of one message. A transaction has at most 500 values."""
_LENGTH_BYTES: Final = 4


class Frames(asyncio.Protocol):
    """Cuts what arrives into messages, and tells when the other side has gone or does not read."""

    def __init__(self, receive: Callable[[int, bytes], None], lost: Callable[[], None]) -> None:
        """A protocol without a connection.

        Args:
            receive: called with the kind and the fields of each message, in order.
            lost: called once, when the connection has ended.
        """
        self._receive = receive
        self._lost = lost
        self._rest = bytearray()
        self._unsent: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.is_open = False

    @classmethod
    async def over(cls, connected: socket.socket, receive: Callable[[int, bytes], None], lost: Callable[[], None]) -> Frames:
        """Use a connected socket, which is closed at the end."""
        connected.setblocking(False)
        _, protocol = await asyncio.get_running_loop().create_connection(lambda: cls(receive, lost), sock=connected)
        return protocol

    def send(self, data: bytes) -> None:
        """Send a message. One that is sent after the end is dropped.

        All messages of one turn of the event loop are sent at once: each call of the system wakes the other process.
        """
        if self.is_open:
            if not self._unsent:
                asyncio.get_running_loop().call_soon(self._flush)
            self._unsent.append(data)

    async def drained(self) -> None:
        """Return when the other side has read enough for more to be sent, or has gone."""
        self._flush()
        await self._writable.wait()

    def close(self) -> None:
        """End the connection when all messages are sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _flush(self) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            if self._transport is not None and self.is_open:
                self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """`asyncio.Protocol`."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of the protocol
        """`asyncio.Protocol`."""
        self.is_open = False
        self._writable.set()
        self._lost()

    def pause_writing(self) -> None:
        """`asyncio.Protocol`."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """`asyncio.Protocol`."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """`asyncio.Protocol`."""
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < HEAD.size or len(rest) < HEAD.unpack_from(rest)[0] + _LENGTH_BYTES:
                return
            data = bytes(rest)
            rest.clear()
        at, end = 0, len(data)
        while end - at >= HEAD.size:
            length, kind = HEAD.unpack_from(data, at)
            if not 0 < length <= LARGEST:
                assert self._transport is not None
                self._transport.abort()
                return
            following = at + _LENGTH_BYTES + length
            if following > end:
                break
            self._receive(kind, data[at + HEAD.size : following])
            at = following
        if at < end:
            rest += data[at:]
