"""The owner's side: what it answers, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from kcp_py.storage.contract import Compare, Put, Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.shared import StorageServer
from kcp_py.storage.shared.client import Owner
from kcp_py.storage.shared.messages import HEAD
from kcp_py.storage.shared.owner import Report, no_report
from kcp_py.storage.wrapping import StorageCall, WrappedStorage

TIMEOUT = 60

T = TypeVar("T")


def ignored(*_: object) -> None:
    """Nothing is done about events and the end."""


@asynccontextmanager
async def connected(server: StorageServer, report: Report = no_report) -> AsyncIterator[tuple[Owner, asyncio.Event]]:
    """A client of a server, and what says that the connection was lost."""
    lost = asyncio.Event()
    near, far = socket.socketpair()
    owner = Owner(ignored, lost.set, report)
    await server.attach(far)
    await owner.connect(near)
    try:
        async with asyncio.timeout(TIMEOUT):
            yield owner, lost
    finally:
        await owner.close()


class Failing(WrappedStorage):
    """A store with a defect, which waits before it writes."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.may_write = asyncio.Event()
        self.called = asyncio.Event()

    async def transact(self, *_: object) -> int:
        """Fail when it is allowed to go on."""
        self.called.set()
        await self.may_write.wait()
        raise KeyError("defect")


@pytest.mark.anyio
async def test_a_defect_is_an_answer() -> None:
    """An unexpected error of the store is answered, and the connection stays."""
    failing = Failing(MemoryStorage())
    failing.may_write.set()
    async with failing, StorageServer(failing) as server, connected(server) as (owner, _):
        with pytest.raises(Exception, match="KeyError: 'defect'"):
            await owner.transact([], [Put("/a", b"1")])
        assert await owner.check() == 0


@pytest.mark.anyio
async def test_a_client_that_goes_is_counted_no_more() -> None:
    """`drained` returns when the last client has gone, and a transaction of it that runs does not keep the server."""
    failing = Failing(MemoryStorage())
    async with failing, StorageServer(failing) as server:
        near, far = socket.socketpair()
        await server.attach(far)
        owner = Owner(ignored, ignored)
        await owner.connect(near)
        writing = asyncio.create_task(owner.transact([Compare("/a", mod_revision=0)], [Put("/a", b"1")]))
        async with asyncio.timeout(TIMEOUT):
            await failing.called.wait()
            assert server.clients == 1
            writing.cancel()
            await owner.close()
            await server.drained()
        assert server.clients == 0


@pytest.mark.anyio
async def test_the_end_waits_for_transactions() -> None:
    """Transactions that have begun are carried out before the server ends, and the clients are told that it has gone."""
    failing = Failing(MemoryStorage())
    async with failing, asyncio.timeout(TIMEOUT):
        server = StorageServer(failing)
        async with connected(server) as (owner, lost):
            writing = asyncio.create_task(owner.transact([], [Put("/a", b"1")]))
            await failing.called.wait()
            closing = asyncio.create_task(server.__aexit__())
            await lost.wait()
            assert not closing.done()
            failing.may_write.set()
            await closing
            with pytest.raises(Exception, match="has gone"):
                await writing


@pytest.mark.anyio
async def test_what_is_no_request_ends_the_connection() -> None:
    """A message of an unknown kind ends the connection of its sender alone."""
    async with MemoryStorage() as storage, StorageServer(storage) as server:
        near, far = socket.socketpair()
        await server.attach(far)
        async with connected(server) as (owner, _):
            near.sendall(HEAD.pack(1, 99))
            near.setblocking(False)
            async with asyncio.timeout(TIMEOUT):
                assert await asyncio.get_running_loop().sock_recv(near, 1) == b""
            assert await owner.transact([], [Put("/a", b"1")]) == 1
        near.close()


@pytest.mark.anyio
async def test_a_store_that_cannot_tell_what_happened_loses_its_clients() -> None:
    """When the events of the store end, the connection does, so that no client goes on without them."""

    class Cut(WrappedStorage):
        async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:
            raise RuntimeError(call.method, proceed)

    async with MemoryStorage() as storage, StorageServer(Cut(storage)) as server, connected(server) as (owner, lost):
        owner.follow(1)
        await lost.wait()


@pytest.mark.anyio
async def test_processes_report_to_each_other() -> None:
    """Each process gets the reports of all others, with that of the owner; one that does not answer is left out."""

    async def report(text: bytes) -> bytes:
        return text

    async with (
        MemoryStorage() as storage,
        StorageServer(storage, report=lambda: report(b"owner")) as server,
        connected(server, lambda: report(b"one")) as (one, _),
        connected(server, lambda: report(b"")) as (two, _),
    ):
        assert await server.reports() in ([b"one", b""], [b"", b"one"])
        assert await one.reports() == [b"owner", b""]
        assert await two.reports() == [b"owner", b"one"]
        near, far = socket.socketpair()
        await server.attach(far)
        assert await two.reports() == [b"owner", b"one"]
        near.close()
