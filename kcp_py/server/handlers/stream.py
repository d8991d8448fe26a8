"""Requests for a subresource that answers each one over a `Connection`: logs, consoles, proxies."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

import structlog

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.rest.answered import HIDDEN
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.connection import Connection
from kcp_py.server.disconnection import ON_DISCONNECT
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.connect import admit
from kcp_py.telemetry.programcode import passes
from kcp_py.watchcache import Watcher

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.server")

_FAILED: Final = 1011
"""The code of a WebSocket whose server has failed."""


class Streaming(Protocol):
    """What serves such a subresource."""

    async def connect(self, connection: Connection) -> None:
        """Answer one request. Whatever it leaves open is closed when it returns."""


async def stream(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Admit the request where it does more than read, then let the subresource answer it.

    The stream goes on when the handler has returned, without the limits in time and number of ordinary requests.

    Raises:
        StatusError: of a plugin or of the subresource, before its answer has begun; 503 when the server is shutting down.
    """
    if backend.shutting_down:
        raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
    subresource = target.resource.subresources[target.subresource]
    query = exchange.query if subresource.kind is None else await admit(backend, exchange, target, subresource.kind)
    rest: Streaming = subresource.rest  # type: ignore[assignment]
    running = _Stream(backend, exchange, Connection(exchange, target, query), rest)
    await running.begin()


async def _failure_of(rest: Streaming, connection: Connection) -> BaseException | None:
    """Answer one request. The failure is the result, because `SystemExit` as the failure of a task would end the event loop."""
    try:
        await rest.connect(connection)
    except BaseException as error:
        if passes(error):
            raise
        return error
    return None


class _Stream:
    """One stream, its client and what may end it."""

    def __init__(self, backend: Backend, exchange: Exchange, connection: Connection, rest: Streaming) -> None:
        target = connection.target
        self._exchange = exchange
        self._connection = connection
        self._label = f"{target.resource.group_resource}/{target.subresource}"
        self._audit_id = exchange.audit_id
        self._cluster = target.cluster_state.name
        self._fanout = backend.fanout
        # Ends with the cluster, with the definition of the resource, and with the server. Nothing is ever stored below its prefix.
        self._watcher: Watcher = self._fanout.reserve(target.resource.keys.prefix + "\0", cluster=self._cluster)
        self._fanout.begin(self._watcher, self._fanout.revision)
        self._task = asyncio.ensure_future(_failure_of(rest, connection))
        self._aides: list[asyncio.Future[None]] = [asyncio.ensure_future(self._until_ended())]

    async def begin(self) -> None:
        """Wait for the beginning of the answer."""
        began = asyncio.ensure_future(self._connection.started.wait())
        try:
            await asyncio.wait((self._task, began), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._close()
            raise
        finally:
            began.cancel()
        if self._task.done() and not self._exchange.started:
            await self._close()
            self._raise()
            await self._exchange.respond(200, b"", b"text/plain; charset=utf-8")
            return
        if self._exchange.finished:
            try:
                await asyncio.wait((self._task,))
            finally:
                await self._close()
            self._report()
            return
        exchange = self._exchange
        if exchange.websocket is not None:
            self._aides.append(asyncio.ensure_future(self._read()))
        if exchange.websocket is None or ON_DISCONNECT in exchange.state:
            exchange.on_disconnect(self._cancel)
        exchange.end = lambda reason=None: self._cancel()  # noqa: ARG005 - it ends in one way
        exchange.continuation = self._run

    def _cancel(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        try:
            await asyncio.wait((self._task,))
        finally:
            await self._close()
        failed = self._report()
        socket = self._exchange.websocket
        if failed and socket is not None:
            await socket.close(_FAILED)
            self._exchange.release()
            self._exchange.finished = True
        else:
            await self._exchange.finish()

    async def _read(self) -> None:
        await self._connection.pump()
        self._connection.end_of_messages()
        self._task.cancel()

    async def _until_ended(self) -> None:
        while not self._watcher.ended:
            await self._watcher.wait()
        self._task.cancel()

    async def _close(self) -> None:
        self._task.cancel()
        for aide in self._aides:
            aide.cancel()
        ending: list[asyncio.Future[Any]] = [self._task, *self._aides]
        await asyncio.wait(ending)
        await self._fanout.detach(self._watcher)

    def _raise(self) -> None:
        """Make an answer of the failure of the subresource, where there is none yet."""
        if self._task.cancelled():
            raise errors.service_unavailable("the request was ended, please try again", retry_after_seconds=1)
        error = self._task.result()
        if isinstance(error, StatusError):
            raise error
        if self._report():
            raise errors.internal(HIDDEN)

    def _report(self) -> bool:
        """Whether the code of the subresource has failed, which is logged."""
        error = None if self._task.cancelled() else self._task.result()
        if error is None or isinstance(error, StatusError):
            # A refusal behind the beginning of the answer can only end it.
            return False
        _log.error("stream_failed", audit_id=self._audit_id, cluster=self._cluster, subresource=self._label, exc_info=error)
        return True
