"""`Part`: what one of several processes does otherwise than a server of one process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import structlog

from kcp_py.aio.sharedcounts import Counts
from kcp_py.cli.workers.child import OWNER
from kcp_py.cli.workers.freshness import Freshness
from kcp_py.cli.workers.parent import Parent, answer_questions
from kcp_py.controllers.names import LOGICAL_CLUSTER_LIMITS, is_enabled
from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options
from kcp_py.request import clusterpath, requestinfo
from kcp_py.server.filters.clusterlimits import Shares
from kcp_py.server.filters.concurrency import JointInFlight
from kcp_py.serving.balance import Turns
from kcp_py.serving.context import ASGIApp
from kcp_py.storage.contract import Storage, UnavailableError
from kcp_py.storage.shared import SharedRevisions, SharedStorage, StorageServer
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.driver import HOT_BYTES, HOT_KEYS, SPAN_BYTES
from kcp_py.telemetry.processes import ProcessMetrics

_log: Final[structlog.typing.FilteringBoundLogger] = structlog.get_logger("kcp_py.cli")


class Part:
    """One process. The owner is a whole server, which serves its store to the others; the others run no controllers."""

    def __init__(
        self,
        name: str,
        channel: socket.socket,
        store: socket.socket | None,
        revisions: SharedRevisions,
        *,
        turns: Turns,
        counts: Counts,
        instants: Counts,
        grace: float,
    ) -> None:
        """A process that was just forked.

        Args:
            name: of the process in logs.
            channel: to the supervisor.
            store: the connection to the owner; None for the owner.
            revisions: of the store.
            turns: the share of this process in the connections.
            counts: requests, watches and connections of the other processes.
            instants: when the other processes expect clusters to have their burst of requests again.
            grace: seconds that the owner waits for the others at its end.
        """
        self.name = name
        self.is_owner = name == OWNER
        self.turns = turns
        self.counts = counts
        self._instants = instants
        self.ready: Callable[[], None] = _nothing
        """To be called when this process serves."""
        self.stop: asyncio.Event | None = None
        """Set when this process has to end; there when it is `joined`."""
        self._channel = channel
        self._store = store
        self._revisions = revisions
        self._grace = grace
        self._parent: Parent | None = None
        self._server: StorageServer | None = None
        self._driver: SharedStorage | None = None
        self._metrics: ProcessMetrics | None = None
        self._attaching: set[asyncio.Task[None]] = set()

    def control_plane(self, options: Options) -> ControlPlane:
        """The control plane of this process, not entered. The supervisor's questions are answered from now on."""
        answer_questions(self._channel)
        for module in (clusterpath, requestinfo):
            module.bound_cached_paths(module.CACHED_PATHS // options.workers)
        options = shared_among(options)
        if self.is_owner:
            return _PartOfServer(options, self._owned(options), self.counts, self._instants)
        # What a ledger has charged is only known to its process.
        controllers = (LOGICAL_CLUSTER_LIMITS,) if is_enabled(LOGICAL_CLUSTER_LIMITS, options.controllers) else ()
        options = dataclasses.replace(options, controllers=controllers)
        return _PartOfServer(options, self._shared(options), self.counts, self._instants)

    def _owned(self, options: Options) -> Callable[[Storage], Storage]:
        def make(_: Storage) -> Storage:
            return SQLiteStorage(
                options.database_file,
                reserve_bytes=options.storage_reserve,
                follower=self._revisions,
                hot_keys=HOT_KEYS // options.workers,
                hot_bytes=HOT_BYTES // options.workers,
                span_bytes=SPAN_BYTES // options.workers,
            )

        return make

    def _shared(self, options: Options) -> Storage:
        store = self._store
        assert store is not None
        self._driver = SharedStorage(
            options.database_file,
            lambda: store,
            self._revisions,
            lost=self._lost,
            report=self._report,
            hot_keys=HOT_KEYS // options.workers,
            hot_bytes=HOT_BYTES // options.workers,
            span_bytes=SPAN_BYTES // options.workers,
        )
        return self._driver

    @contextlib.asynccontextmanager
    async def joined(self, control_plane: ControlPlane, announce: Callable[[], None]) -> AsyncIterator[ASGIApp]:
        """Within it, this process takes part with a control plane that was entered. Gives the application to serve.

        At the end the owner waits for the others.

        Args:
            control_plane: that of this process.
            announce: called in the owner when all processes serve.
        """
        parent = self._parent = Parent(self._channel, attach=self._attach, announce=announce)
        self.stop, self.ready = parent.stop, parent.ready
        self._metrics = control_plane.registry.processes = ProcessMetrics(self.name, control_plane.registry, self._others)
        try:
            if self.is_owner:
                async with StorageServer(control_plane.backend.access.storage, report=self._report) as self._server:
                    yield Freshness(control_plane.app, control_plane.backend.fanout, self._revisions)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._grace):
                            await self._server.drained()
            else:
                yield Freshness(control_plane.app, control_plane.backend.fanout, self._revisions)
        finally:
            parent.close()

    async def _report(self) -> bytes:
        return b"[]" if self._metrics is None else await asyncio.to_thread(self._metrics.report)

    async def _others(self) -> Sequence[bytes]:
        if self._server is not None:
            return await self._server.reports()
        assert self._driver is not None
        try:
            return await self._driver.reports()
        except UnavailableError:
            return ()

    def _attach(self, connected: socket.socket) -> None:
        if self._server is None:
            connected.close()
            return
        task = asyncio.get_running_loop().create_task(self._server.attach(connected))
        self._attaching.add(task)
        task.add_done_callback(self._attaching.discard)

    def _lost(self) -> None:
        _log.error("store_owner_lost")
        if self._parent is not None:
            self._parent.end()


class _PartOfServer(ControlPlane):
    """A control plane whose limits hold for all processes of the server together."""

    def __init__(self, options: Options, storage: Storage | Callable[[Storage], Storage], counts: Counts, instants: Counts) -> None:
        super().__init__(options, storage=storage, fairness=JointInFlight(counts))
        self._shares = Shares(counts=counts, instants=instants)


def shared_among(options: Options) -> Options:
    """The options of one of the processes: bounds of memory for the whole server are divided."""
    total = max(options.max_body_bytes_in_flight // options.workers, options.max_request_body_bytes)
    return dataclasses.replace(
        options,
        max_body_bytes_in_flight=total,
        cluster_cache_bytes=options.cluster_cache_bytes // options.workers,
        watch_history_bytes=options.watch_history_bytes // options.workers,
        max_cluster_body_bytes_in_flight=min(options.max_cluster_body_bytes_in_flight, total),
    )


def _nothing() -> None:
    """There is nothing to call yet."""
