"""Running an ASGI application on a listening socket until the process is told to stop.

The only module that imports uvicorn. The names that are used are listed in docs/adr/0019-http-without-inheritance.md:
`Config`, `Server.serve` and `on_tick`, four methods that are replaced (`startup`, `main_loop`, `shutdown`, `capture_signals`), and the
attributes `lifespan`, `servers`, `started`, `should_exit` and `server_state`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

import structlog
import uvicorn

from kcp_py.aio.sharedcounts import Counts
from kcp_py.options import Options
from kcp_py.serving.accepting import Acceptor
from kcp_py.serving.balance import Turns
from kcp_py.serving.clientauthorities import ServerTLS
from kcp_py.serving.connection import Connection
from kcp_py.serving.connectionlimits import ConnectionLimits, connections_that_fit
from kcp_py.serving.context import ASGIApp, ServerContext
from kcp_py.serving.http1.limits import ReadLimits

STARTUP_FAILED: Final = 3
"""The exit code where the application's lifespan fails, as uvicorn's."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_TICK_SECONDS: Final = 1.0
"""How often the Date header is made."""
_LOOK_SECONDS: Final = 0.005
"""How often the end looks whether everything has ended."""
_CONNECTIONS_PER_TURN: Final = 50
"""Client certificates are looked at again for so many connections before others have their turn."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.serving")


class ListenError(Exception):
    """The address cannot be listened on. `str()` is one line."""


def listen(options: Options) -> socket.socket:
    """Bind the address and port of the options, without accepting yet.

    Raises:
        ListenError: the port is taken, not allowed, or the address is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in options.bind_address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and options.bind_address == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((options.bind_address, options.secure_port))
        # Two sockets may be bound to one port with SO_REUSEADDR until one of them listens: only this tells that the port is free.
        listener.listen(options.listen_backlog)
    except OSError as error:
        listener.close()
        where = f"[{options.bind_address}]" if family == socket.AF_INET6 else options.bind_address
        raise ListenError(f"{where}:{options.secure_port}: {_reason(error)}") from None
    listener.setblocking(False)
    return listener


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    options: Options,
    *,
    tls: ssl.SSLContext | None,
    on_shutdown: Callable[[], Awaitable[None] | None],
    on_ready: Callable[[], None],
    stop: asyncio.Event | None = None,
    turns: Turns | None = None,
    counts: Counts | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until `stop` is set, then end in order; return when the last request has ended.

    On the first signal `on_shutdown` is called while everything still works: it makes readiness fail and ends watches. Then no
    connection is accepted any more, and requests in flight have `Options.shutdown_grace_period` to finish before they are cancelled. A
    second signal ends the process at once, as kube-apiserver's second does; the stores are made for that.

    Args:
        app: the application; its lifespan is run if it has one.
        listener: what `listen` returned; closed at the end.
        options: limits and times.
        tls: None serves plain HTTP.
        on_shutdown: may be a coroutine function.
        on_ready: called when connections are accepted.
        stop: set to end; signals are then left to the caller. None for signals, which need the main thread.
        turns: the share of this process, where several accept from the socket.
        counts: has the connections of the other processes.
    """
    acceptor = Acceptor(
        listener,
        ConnectionLimits(total=connections_that_fit(), per_address=options.max_connections_per_address, counts=counts),
        tls=tls,
        handshake_timeout=options.tls_handshake_timeout,
        turns=turns,
    )
    limits = ReadLimits(
        max_head_bytes=options.max_request_header_bytes,
        head_timeout=options.request_header_timeout,
        idle_timeout=max(1, round(options.keep_alive_timeout)),
    )
    config = uvicorn.Config(
        app,
        # Made by this module; named here so that uvicorn loads none of its own.
        http=Connection,
        ws="none",
        loop="none",
        interface="asgi3",
        lifespan="auto",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(options.shutdown_grace_period),
    )
    server = _Server(config, app, acceptor, limits=limits, on_shutdown=on_shutdown, on_ready=on_ready, stop=stop)
    with contextlib.ExitStack() as stack:
        if isinstance(tls, ServerTLS):
            stack.enter_context(tls.versions.listening(server.authorities_changed))
        await server.serve([listener])


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop that serves fastest; None for asyncio's own, where the extra package is not installed."""
    try:
        import uvloop  # noqa: PLC0415 # it is optional
    except ImportError:
        return None
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.Loop
    return loop


class _Server(uvicorn.Server):
    """uvicorn's server with connections and an acceptor of its own, two hooks, and signals that go through the event loop."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: ASGIApp,
        acceptor: Acceptor,
        *,
        limits: ReadLimits,
        on_shutdown: Callable[[], Any],
        on_ready: Callable[[], None],
        stop: asyncio.Event | None,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._acceptor = acceptor
        self._limits = limits
        self._on_shutdown = on_shutdown
        self._on_ready = on_ready
        self._stop = stop
        self._ending = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._revoking: asyncio.Task[None] | None = None

    def authorities_changed(self) -> None:
        """Other authorities of clients are accepted than before: end the streams of clients whose authority is not among them."""
        if self._revoking is not None:
            # It would not look at all connections again.
            self._revoking.cancel()
        self._revoking = asyncio.get_running_loop().create_task(self._end_revoked())

    async def _end_revoked(self) -> None:
        state: Any = self.server_state
        revoked = 0
        for number, connection in enumerate(list(state.connections), start=1):
            revoked += connection.end_if_revoked()
            if number % _CONNECTIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        _log.info("client_authorities_changed", revoked_connections=revoked)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            # The lifespan has logged why.
            sys.exit(STARTUP_FAILED)
        self.servers = [self._acceptor]  # type: ignore[list-item] # all that is called of it
        state: Any = self.server_state
        context = ServerContext(self._app, state, self._limits, app_state=self.lifespan.state)
        self._acceptor.start(lambda: Connection(context))
        self.started = True
        if not self.should_exit:
            self._on_ready()

    async def main_loop(self) -> None:
        # uvicorn's looks ten times a second whether to end.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # As uvicorn's, which looks ten times a second whether everything has ended.
        state: Any = self.server_state
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110 - they are sets of uvicorn's
                    await asyncio.sleep(_LOOK_SECONDS)
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            _log.warning("requests_cancelled", requests=len(state.tasks))
            for task in state.tasks:
                task.cancel()
        await self.lifespan.shutdown()
        # Requests that the grace period ran out for were cancelled without being waited for; the store must outlive their last steps.
        if self.server_state.tasks:
            await asyncio.wait(list(self.server_state.tasks), timeout=1)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        if self._stop is not None:
            waiting = loop.create_task(self._wait_for_stop(self._stop))
            try:
                yield
            finally:
                waiting.cancel()
            return
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    async def _wait_for_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self._stop_in_order()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping is not None:
            _log.warning("server_killed", signal=number.name)
            os._exit(1)
        # The stop comes first: a log that nothing reads any more must not keep the process alive.
        self._stopping = asyncio.get_running_loop().create_task(self._stop_in_order())
        _log.info("server_stopping", signal=number.name, grace_seconds=self.config.timeout_graceful_shutdown)

    async def _stop_in_order(self) -> None:
        try:
            waiting = self._on_shutdown()
            if waiting is not None:
                await waiting
        except Exception:  # noqa: BLE001 - logged; a fault in the hook must not keep the process alive
            _log.exception("shutdown_hook_failed")
        finally:
            self.should_exit = True
            self._ending.set()


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use"
        case errno.EACCES:
            return "the port needs more rights than this user has"
        case errno.EADDRNOTAVAIL:
            return "not an address of this machine"
        case _:
            return error.strerror or str(error)
