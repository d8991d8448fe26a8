"""`TransportClosing`: closes a transport in the steps of `http1.closing`, so that the client can read the last response."""

from __future__ import annotations

import asyncio

from kcp_py.serving.http1.closing import Action, Closing
from kcp_py.serving.records import Buffer, discard


class TransportClosing:
    """The end of one connection. The caller has a timer that runs `step` at the `deadline`."""

    __slots__ = ("_buffer", "_closing", "_transport")

    def __init__(self, transport: asyncio.Transport, buffer: Buffer) -> None:
        """Prepare.

        Args:
            transport: of the connection.
            buffer: its content is overwritten.
        """
        self._transport = transport
        self._buffer = buffer
        self._closing = Closing()

    @property
    def deadline(self) -> float | None:
        """When the next step is due, in seconds of the caller's clock; None where no step follows."""
        return self._closing.deadline

    def linger(self, now: float) -> None:
        """The last response is written and nothing more is read: close the transport once the client had time to read the response."""
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._closing.linger(now)

    def flush(self, now: float) -> None:
        """The server stops: abort the transport once it is closed and has sent everything, or the client no longer reads."""
        self._closing.flush(now)

    def step(self, now: float) -> None:
        """Take the next step if it is due."""
        deadline = self._closing.deadline
        if deadline is None or deadline > now:
            return
        transport = self._transport
        action = self._closing.expired(
            now, unsent=transport.get_write_buffer_size(), closing=transport.is_closing(), unread=self._has_unread_bytes()
        )
        if action is Action.DISCARD:
            descriptor = transport.get_extra_info("socket").fileno()
            action = self._closing.discarded(discard(descriptor, self._buffer, self._closing.left), now)
        if action is Action.CLOSE:
            transport.close()
        elif action is Action.ABORT:
            transport.abort()

    def _has_unread_bytes(self) -> bool:
        """Whether bytes have arrived that TLS has not decrypted."""
        transport = self._transport
        # Transports without TLS do not have this method.
        return transport.get_extra_info("ssl_object") is not None and bool(transport.get_read_buffer_size())  # type: ignore[attr-defined]
