"""What watches over a running control plane: the feed of changes, metrics of its state, and reports of failed tasks."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from kcp_py.aio.supervisor import Supervisor
from kcp_py.authn.tokenfile import TokenFiles
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.server.longrequests import LongRequests
from kcp_py.storage.contract import Storage, StorageError
from kcp_py.storage.wrapping import driver_of
from kcp_py.telemetry.eventloop import EventLoopLag
from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.registry import MetricsRegistry
from kcp_py.watchcache import Fanout, Monitor

if TYPE_CHECKING:
    from kcp_py.telemetry.watchdog import Watchdog

_FILES_POLL_SECONDS: Final = 1.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controlplane")


class Feed:
    """Whether the changes of the store are followed, for readiness."""

    def __init__(self) -> None:
        self._running = False

    async def follow(self, fanout: Fanout, started: asyncio.Event) -> None:
        """Follow the changes until the task is cancelled, or the store fails.

        Args:
            fanout: gets the changes.
            started: set as soon as no change is missed.
        """
        self._running = True
        try:
            await fanout.run(started=started)
        finally:
            self._running = False

    async def check(self) -> None:
        """The check `informer-sync`.

        Raises:
            RuntimeError: the changes are not followed.
        """
        if not self._running:
            raise RuntimeError("the store's changes are not followed")


class Monitored(NamedTuple):
    """The parts whose state metrics show."""

    storage: Storage
    fanout: Fanout
    clusters_prefix: str
    """Of the keys of LogicalClusters."""
    database_file: Path | None
    """The SQLite file of the store; None for other stores."""
    registry: MetricsRegistry
    gauges: Gauges
    watchdog: Watchdog | None
    """Names functions of a program that hold the event loop; None without such functions."""


def start_monitoring(parts: Monitored, supervisor: Supervisor, stack: AsyncExitStack) -> None:
    """Start the tasks that read the state of the parts. They end with the supervisor and the stack."""
    storage, gauges, watchdog = parts.storage, parts.gauges, parts.watchdog
    size_of = getattr(driver_of(storage), "size", None)
    monitor = Monitor(storage, parts.fanout, parts.clusters_prefix, database_file=parts.database_file, size_of=size_of)
    if watchdog is not None:
        watchdog.describe(gauges)
        watchdog.start()
        stack.callback(watchdog.close)
    loop_lag = EventLoopLag(None if watchdog is None else watchdog.wake)
    monitor.describe(gauges)
    loop_lag.describe(gauges)
    parts.registry.register(gauges)
    supervisor.start("monitor", monitor.run)
    supervisor.start("event loop lag", loop_lag.run)


def describe_budget(budget: ClusterBudget, gauges: Gauges) -> None:
    """Offer the metrics of the caches of clusters."""
    gauges.add(
        "kcp_cluster_cache_bytes",
        "Estimated memory of the caches of logical clusters, by cache; shared: what several clusters have in common.",
        budget.sizes,
        labels=("cache",),
    )
    gauges.add("kcp_cluster_cache_limit_bytes", "The value of --cluster-cache-bytes.", lambda: float(budget.capacity))
    gauges.add(
        "kcp_cluster_cache_clusters",
        "Logical clusters, and callers of discovery over all clusters, that are in the caches.",
        lambda: float(len(budget)),
    )
    gauges.add(
        "kcp_cluster_cache_evictions",
        "How many times a logical cluster, or a caller of discovery over all clusters, was removed from the caches for lack of room.",
        lambda: float(budget.evictions),
        kind="counter",
    )


async def reload_tokens(token_files: TokenFiles, running: LongRequests) -> None:
    """Read token files again whenever they have changed, and check running requests then."""
    while True:
        await asyncio.sleep(_FILES_POLL_SECONDS)
        if await asyncio.to_thread(token_files.reload_if_changed):
            _log.info("tokens_reloaded")
            running.changed()


def report(name: str, error: BaseException, delay: float) -> None:
    """Log that a supervised task has failed."""
    # The text of an outage of the store is sufficient. Any other error is a defect and is logged with its traceback.
    trace = None if isinstance(error, StorageError) else error
    _log.error("task_failed", task=name, error=str(error) or type(error).__name__, restart_seconds=delay, exc_info=trace)
