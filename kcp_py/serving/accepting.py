"""`Acceptor`: takes connections from the listening socket, within the limits of `ConnectionLimits`.

The event loops have this built in, but with neither: uvloop closes the listening socket when the process is out of descriptors, and no loop
counts connections before the TLS handshake, in which a silent client may stay.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import structlog

from kcp_py.serving.addresses import client_of
from kcp_py.serving.balance import Turns
from kcp_py.serving.connectionlimits import ConnectionLimits, ConnectionSlot
from kcp_py.serving.handshakes import HandshakeQueue

RETRY_SECONDS: Final = 0.1
"""How long nothing is accepted after the system refused to."""
TLS_END_SECONDS: Final = 5.0
"""How long a client may take to answer the end of TLS."""

_PER_TURN: Final = 1
"""Connections that are accepted in one turn of the event loop."""
_SHORTEST_HANDSHAKE_SECONDS: Final = 0.01
"""The rest of the time for a client that used up its time before it sent the first byte."""
_SECONDS_BETWEEN_WARNINGS: Final = 60.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.serving")


class LimitedProtocol(Protocol):
    """A protocol that leaves its slot when its connection is lost."""

    slot: ConnectionSlot | None


class Listener(Protocol):
    """The part of a listening socket that `Acceptor` uses."""

    def fileno(self) -> int: ...

    def accept(self) -> tuple[socket.socket, tuple[str, int]]: ...


class Acceptor:
    """Serves one listening socket from `start` to `close`. Has what uvicorn calls of a server."""

    def __init__(
        self,
        listener: Listener,
        limits: ConnectionLimits,
        *,
        tls: ssl.SSLContext | None,
        handshake_timeout: float,
        turns: Turns | None = None,
    ) -> None:
        """Do not accept yet.

        Args:
            listener: bound, listening and not blocking.
            limits: shared by all acceptors of the process.
            tls: None for plain connections.
            handshake_timeout: seconds that a client has for the TLS handshake.
            turns: the share of this process, where several accept from the socket.
        """
        self._turns = turns
        self._has_waited = False
        self._listener = listener
        self._limits = limits
        self._tls = tls
        self._handshake_timeout = handshake_timeout
        self._handshakes = HandshakeQueue()
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[bool]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self._warned: dict[str, float] = {}

    def start(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Accept from now on.

        Args:
            make_protocol: makes a `LimitedProtocol`.
        """
        self._make_protocol = make_protocol
        if self._turns is not None:
            self._turns.record(self._limits.taken)
        self._limits.on_free = self._resume
        self._resume()

    def close(self) -> None:
        """Accept no more, and give up connections whose handshake is not done."""
        self._closed = True
        if self._turns is not None:
            self._turns.leave()
        self._pause()
        if self._tls is None:
            # Each ends within a few turns. uvloop closes the transport of a cancelled one without telling its protocol, which may be
            # connected already.
            return
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when nothing is left of `close`."""
        if self._opening:
            await asyncio.wait(list(self._opening))

    def _resume(self) -> None:
        if not self._closed:
            self._pause()
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _pause(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._loop.remove_reader(self._listener.fileno())

    def _accept(self) -> None:
        for _ in range(_PER_TURN):
            if self._limits.full:
                self._pause()
                self._warn("connections_exhausted", "the limit on open files allows no further connection; new ones wait")
                return
            if self._turns is not None and not self._has_waited and (delay := self._turns.delay(self._limits.taken)):
                self._pause()
                self._retry = self._loop.call_later(delay, self._resume)
                self._has_waited = True
                return
            self._has_waited = False
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: trying again at once would fail again, and the socket stays readable.
                self._pause()
                self._retry = self._loop.call_later(RETRY_SECONDS, self._resume)
                self._warn("accept_failed", error.strerror or str(error))
                return
            slot = self._limits.acquire(address[0])
            if slot is None:
                connection.close()
                self._warn("connections_refused", "a client address has as many connections as --max-connections-per-address allows")
                continue
            if self._turns is not None:
                self._turns.record(self._limits.taken)
            connection.setblocking(False)
            task = self._loop.create_task(self._open(connection, address[0], slot))
            self._opening.add(task)
            task.add_done_callback(partial(self._opened, connection, slot))

    async def _open(self, connection: socket.socket, host: str, slot: ConnectionSlot) -> bool:
        """Hand a connection to a protocol of its own. Returns whether it got so far."""
        try:
            if self._tls is None:
                if self._closed:
                    return False
                transport, _ = await self._loop.connect_accepted_socket(lambda: self._protocol(slot), connection)
                if self._closed:
                    transport.close()
                return True
            begun = self._loop.time()
            # Only clients that have said something wait for a turn: silent ones take none from others.
            async with asyncio.timeout(self._handshake_timeout):
                await self._readable(connection)
            left = begun + self._handshake_timeout - self._loop.time()
            await self._handshakes.turn(client_of(host))
            await self._loop.connect_accepted_socket(
                lambda: self._protocol(slot),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=max(left, _SHORTEST_HANDSHAKE_SECONDS),
                ssl_shutdown_timeout=TLS_END_SECONDS,
            )
        except (OSError, ssl.SSLError):
            # The client left, did not speak TLS, or sent nothing in time. None of this is a fault of the server.
            return False
        return True

    def _protocol(self, slot: ConnectionSlot) -> asyncio.BaseProtocol:
        protocol = self._make_protocol()
        protocol.slot = slot  # type: ignore[attr-defined] # a LimitedProtocol, which asyncio's own types do not know
        return protocol

    async def _readable(self, connection: socket.socket) -> None:
        """Return when a client has sent something, or has left."""
        readable = self._loop.create_future()
        self._loop.add_reader(connection, _set, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(connection)

    def _opened(self, connection: socket.socket, slot: ConnectionSlot, task: asyncio.Task[bool]) -> None:
        self._opening.discard(task)
        if task.cancelled() or not task.result():
            connection.close()
            slot.release()

    def _warn(self, event: str, reason: str) -> None:
        """Log, but not as often as a client can have it happen."""
        now = self._loop.time()
        if now >= self._warned.get(event, now):
            self._warned[event] = now + _SECONDS_BETWEEN_WARNINGS
            _log.warning(event, reason=reason)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
