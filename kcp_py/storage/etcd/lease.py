"""Leases: a sign of life that etcd forgets when it is not renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import grpc

from kcp_py.storage.contract import UnavailableError
from kcp_py.storage.etcd.channel import Connections
from kcp_py.storage.etcd.failures import translate
from kcp_py.storage.etcd.messages import (
    LEASE_GRANT,
    LEASE_KEEP_ALIVE,
    LEASE_REVOKE,
    TXN,
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
)

_BEATS_PER_LIFE: Final = 3
_RETRY: Final = 0.2


class LeaseLostError(Exception):
    """etcd has forgotten the lease."""


class Lease:
    """A lease that is held while the context is open: `async with storage.lease(10) as lease: await lease.put(key, value)`.

    The first beat goes out at once, further ones a third of the time to live apart, all on one stream that is renewed on another member
    when it breaks. When no beat was answered for a time to live (counted from when the last answered one was *sent*), or etcd says that the
    lease is gone, `lost` is set: what was put under the lease has vanished or is about to, and nothing brings it back.
    """

    def __init__(
        self, connections: Connections, ttl: int, *, sleep: Callable[[float], Awaitable[None]], clock: Callable[[], float] | None = None
    ) -> None:
        """`ttl` is in seconds; etcd may grant more."""
        self._connections = connections
        self._sleep = sleep
        self._clock = clock or asyncio.get_running_loop().time
        self._task: asyncio.Task[None] | None = None
        self._expiry = 0.0
        self.ttl = ttl
        """Seconds, as granted."""
        self.id = 0
        self.beats = 0
        """How many beats were answered."""
        self.lost = asyncio.Event()

    async def __aenter__(self) -> Self:
        sent = self._clock()
        response = await self._call(LEASE_GRANT, LeaseGrantRequest(TTL=self.ttl))
        self.id, self.ttl = response.ID, response.TTL
        self._expiry = sent + self.ttl
        self._task = asyncio.create_task(self._keep(), name="etcd-lease")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if not self.lost.is_set():
            # It would expire by itself; an orderly end frees its keys sooner.
            with suppress(UnavailableError):
                await self._call(LEASE_REVOKE, LeaseRevokeRequest(ID=self.id))

    async def put(self, key: str, value: bytes) -> int:
        """Write a key that goes away with the lease; returns the revision.

        Raises:
            StorageError: the lease is gone.
            UnavailableError: the outcome is unknown.
        """
        operation = RequestOp(request_put=PutRequest(key=key.encode(), value=value, lease=self.id))
        response = await self._call(TXN, TxnRequest(success=[operation]))
        return int(response.header.revision)

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await self._connections.call(method, request, repeatable=False)
        except grpc.aio.AioRpcError as error:
            raise translate(error) from error

    async def _keep(self) -> None:
        while self._clock() < self._expiry and not self._connections.closing.is_set():
            try:
                await self._beat()
            except LeaseLostError:
                break
            except (UnavailableError, TimeoutError):
                await self._sleep(_RETRY)
        self.lost.set()

    async def _beat(self) -> None:
        """Beat on one stream until it breaks.

        Raises:
            LeaseLostError: etcd knows no such lease.
            UnavailableError: the stream broke.
            TimeoutError: no answer came while the lease is known to live.
        """
        async with asyncio.timeout(self._expiry - self._clock()):
            connection = await self._connections.ready()
            call = self._connections.open_stream(LEASE_KEEP_ALIVE, connection, await self._connections.metadata(connection))
        try:
            while True:
                sent = self._clock()
                async with asyncio.timeout(self._expiry - sent):
                    await call.write(LeaseKeepAliveRequest(ID=self.id))
                    response = await call.read()
                if response is grpc.aio.EOF:
                    raise UnavailableError("the member ended the stream")
                if response.TTL <= 0:
                    raise LeaseLostError(f"lease {self.id:x}")
                self._expiry = sent + response.TTL
                self.beats += 1
                await self._sleep(response.TTL / _BEATS_PER_LIFE)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self._connections.avoid(connection)
            raise UnavailableError(str(error)) from error
        except asyncio.CancelledError:
            self._connections.raise_if_closing()
            raise
        finally:
            self._connections.end_stream(call)
