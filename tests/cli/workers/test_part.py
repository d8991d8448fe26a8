"""An owner and a worker, in one event loop, are one server."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kcp_py.aio.sharedcounts import SharedCounts
from kcp_py.cli.workers.child import ATTACH, OWNER, READY
from kcp_py.cli.workers.part import Part, shared_among
from kcp_py.controllers.names import LOGICAL_CLUSTER_LIMITS
from kcp_py.options import Options
from kcp_py.serving.balance import ConnectionCounts, Turns
from kcp_py.storage.contract import Put
from kcp_py.storage.shared import SharedRevisions, SharedStorage
from kcp_py.storage.sqlite import SQLiteStorage

TIMEOUT = 60


class Server:
    """What the supervisor gives its processes."""

    def __init__(self) -> None:
        self._revisions = SharedRevisions()
        self._connections = ConnectionCounts(2)
        self._counts = SharedCounts(2)
        self._instants = SharedCounts(2)

    def part(self, number: int, channel: socket.socket, store: socket.socket | None) -> Part:
        """A process; 0 is the owner."""
        return Part(
            OWNER if number == 0 else f"worker-{number}",
            channel,
            store,
            self._revisions,
            turns=Turns(self._connections, number),
            counts=self._counts.of(number),
            instants=self._instants.of(number),
            grace=1.0,
        )


@pytest.mark.anyio
async def test_an_owner_and_a_worker_are_one_server(tmp_path: Path) -> None:
    """The worker reads and writes the store of the owner, runs no controllers but those of limits, and ends when the owner has gone."""
    options = Options(root_directory=tmp_path, workers=2, plain_http=True)
    server = Server()
    async with AsyncExitStack() as worker_stack, AsyncExitStack() as stack, asyncio.timeout(TIMEOUT):
        sockets = [stack.enter_context(one) for _ in range(2) for one in socket.socketpair()]
        near, far = socket.socketpair()
        owner, worker = server.part(0, sockets[1], None), server.part(1, sockets[3], far)
        first = await stack.enter_async_context(owner.control_plane(options))
        await stack.enter_async_context(owner.joined(first, lambda: None))
        assert isinstance(first.backend.access.storage, SQLiteStorage)
        owner.ready()
        assert sockets[0].recv(1) == READY
        socket.send_fds(sockets[0], [ATTACH], [near.fileno()])
        near.close()
        second = await worker_stack.enter_async_context(worker.control_plane(options))
        await worker_stack.enter_async_context(worker.joined(second, lambda: None))
        assert isinstance(second.backend.access.storage, SharedStorage)
        assert (first.options.controllers, second.options.controllers) == (options.controllers, (LOGICAL_CLUSTER_LIMITS,))
        revision = await second.backend.access.storage.transact([], [Put("/a", b"1")])
        item = await first.backend.access.storage.get("/a")
        assert item is not None
        assert item.mod_revision == revision
        assert worker.stop is not None
        assert not worker.stop.is_set()
        owner_ends = asyncio.create_task(stack.aclose())
        await worker.stop.wait()
        await worker_stack.aclose()
        await owner_ends


def test_bounds_of_memory_are_divided() -> None:
    """All processes together keep as much as one; a single body and the body of one cluster still fit."""
    options = Options(workers=4)
    divided = shared_among(options)
    assert divided.watch_history_bytes == options.watch_history_bytes // 4
    assert divided.max_body_bytes_in_flight == max(options.max_body_bytes_in_flight // 4, options.max_request_body_bytes)
    assert divided.max_cluster_body_bytes_in_flight <= divided.max_body_bytes_in_flight
    tight = shared_among(Options(workers=64))
    assert tight.max_body_bytes_in_flight >= tight.max_request_body_bytes
