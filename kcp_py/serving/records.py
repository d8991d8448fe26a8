"""`Records`: passes decrypted bytes of TLS to a connection, about one record at a time.

The event loops decrypt all that has been received, up to 256 KiB, before the protocol sees the first byte. Of a request that is refused for
its head, everything behind the head would be decrypted for nothing, for a client that is not authenticated. With a buffer of the protocol's
own the loops decrypt what fits into it, and then let other connections have their turns.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Any, Final, Protocol

RECORD_BYTES: Final = 16 * 1024
"""The longest record of TLS (RFC 8446, 5.1). No part of one can be decrypted."""
MOST_BYTES: Final = 256 * 1024
"""The most that is decrypted in one turn of the event loop, of a body that was asked for."""


class Receiver(Protocol):
    """A connection that receives decrypted bytes."""

    @property
    def reads_body(self) -> bool:
        """Whether only bytes that the application has asked for can come next, or further ones of the same request."""

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Buffer:
    """Memory that receives decrypted bytes before they are passed on. All connections of one event loop share one."""

    __slots__ = ("most", "record")

    def __init__(self) -> None:
        self.most = memoryview(bytearray(MOST_BYTES))
        self.record = self.most[:RECORD_BYTES]


class Records(asyncio.BufferedProtocol):
    """Stands between a transport over TLS and one connection: `transport.set_protocol(Records(connection, buffer))`."""

    __slots__ = ("_buffer", "_receiver")

    def __init__(self, receiver: Receiver, buffer: Buffer) -> None:
        self._receiver: Receiver | None = receiver
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        receiver = self._receiver
        return self._buffer.most if receiver is not None and receiver.reads_body else self._buffer.record

    def buffer_updated(self, nbytes: int) -> None:
        if self._receiver is not None:
            self._receiver.data_received(bytes(self._buffer.most[:nbytes]))

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        receiver = self._receiver
        self.leave()
        if receiver is not None:
            receiver.connection_lost(exc)

    def leave(self) -> None:
        """Release the connection. Transports keep references to the methods above, and so to this object."""
        self._receiver = None


class ServerEnd(ssl.SSLObject):
    """The server's end of a TLS connection, which reads little once it has said that it ends.

    The event loops read on until the client answers the end, for seconds, and drop what they decrypt. They do so without a
    buffer, `Records` with one.
    """

    server_name: str | None = None
    """The host name of the handshake."""

    _dropped = 0

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 # as the base class has it
        if buffer is not None:
            return super().read(len, buffer)
        dropped = super().read(len)
        self._dropped += memoryview(dropped).nbytes
        if self._dropped > MOST_BYTES:
            raise ConnectionAbortedError("the client goes on behind the end of the connection")
        return dropped


def discard(descriptor: int, buffer: Buffer, most: int) -> int | None:
    """Throw away what a socket has received, without decrypting it; Linux does not even copy it.

    Args:
        descriptor: of a socket that does not block.
        buffer: its content is overwritten.
        most: bytes; the last read may bring up to `MOST_BYTES` more.

    Returns:
        How many bytes are gone; None where the client has ended the connection.
    """
    gone = 0
    with socket.socket(fileno=os.dup(descriptor)) as received:
        try:
            while gone < most:
                count = received.recv_into(buffer.most, 0, socket.MSG_TRUNC)
                if not count:
                    return None
                gone += count
        except BlockingIOError:
            pass
        except OSError:
            return None
    return gone
