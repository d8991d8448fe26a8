"""`Tunnel`: a connection that an application takes over behind the head of a request, to exchange bytes of another protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from kcp_py.serving.clientauthorities import PeerCertificate
from kcp_py.serving.connectionlimits import ConnectionSlot
from kcp_py.serving.context import ServerContext
from kcp_py.serving.flow import LazyEvent

_BUFFERED_BYTES: Final = 64 * 1024
"""Bytes of the client that wait for the application; further ones wait at the client."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.serving")

Serve = Callable[["Tunnel"], Awaitable[None]]
"""Exchanges the bytes of one connection. The connection is closed when it returns."""


class Tunnel(asyncio.Protocol):
    """One connection, taken over from the HTTP protocol.

    An application that has an attribute `tunnel`, a coroutine function (`Serve`), gets every request that offers to upgrade the
    connection in this way. The application answers the request itself.

    Attributes:
        scope: of the HTTP request, as in ASGI.
    """

    reads_body: Final = False

    def __init__(
        self, context: ServerContext, scope: Mapping[str, Any], slot: ConnectionSlot | None, *, peer: PeerCertificate | None = None
    ) -> None:
        """Begin.

        Args:
            context: of the server.
            scope: of the request.
            slot: left when the connection is lost.
            peer: the client certificate; None where the connection has none.
        """
        self._context = context
        self.scope = scope
        self.slot = slot
        self._peer = peer
        self._reader = asyncio.StreamReader(_BUFFERED_BYTES, context.loop)
        self._writable = LazyEvent()
        self._writable.set()
        self._lost = False

    def start(self, transport: asyncio.Transport, received: bytes, serve: Serve) -> None:
        """Let the application have the connection.

        Args:
            transport: of the connection.
            received: bytes behind the head of the request.
            serve: the application.
        """
        self.transport = transport
        state = self._context.state
        state.connections.add(self)
        self._reader.set_transport(transport)
        if received:
            self._reader.feed_data(received)
        task = self._context.loop.create_task(self._run(serve))
        state.tasks.add(task)
        task.add_done_callback(state.tasks.discard)

    async def read(self) -> bytes:
        """Bytes of the client, as they come; empty at their end."""
        return await self._reader.read(_BUFFERED_BYTES)

    async def write(self, data: bytes) -> None:
        """Send bytes to the client. Returns once the connection takes more.

        Raises:
            ConnectionError: the client is gone.
        """
        if self._lost or self.transport.is_closing():
            raise ConnectionResetError
        self.transport.write(data)
        await self._writable.wait()

    # What the transport reports

    def data_received(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def eof_received(self) -> bool:
        """The client has ended its side, which the application sees. The other side stays open."""
        self._reader.feed_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._lost = True
        self._reader.feed_eof()
        self._writable.set()
        self._context.state.connections.discard(self)
        if self.slot is not None:
            self.slot.release()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What the server asks for

    def shutdown(self) -> None:
        """The server stops. There is no end of a message to wait for."""
        self.transport.close()

    def end_if_revoked(self) -> bool:
        """End the connection when the authority of the client's certificate is not accepted any more. Returns whether that is so."""
        revoked = self._peer is not None and self._peer.is_revoked()
        if revoked:
            self.transport.abort()
        return revoked

    async def _run(self, serve: Serve) -> None:
        try:
            await serve(self)
        except ConnectionError:
            pass
        except Exception:  # noqa: BLE001 - logged; the connection ends in any case
            _log.exception("application_failed")
        finally:
            self.transport.close()
