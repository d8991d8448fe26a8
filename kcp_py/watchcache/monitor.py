"""`Monitor`: checks the store and the fan-out at intervals, logs changes of their state, and provides metrics."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from kcp_py.storage.contract import CompactedError, Storage, StorageError
from kcp_py.storage.wrapping import room_of
from kcp_py.telemetry.gauges import Gauges
from kcp_py.watchcache.count import ObjectCount
from kcp_py.watchcache.fanout import Fanout

INTERVAL_SECONDS: Final = 2.0
SIZE_EVERY: Final = 15
"""The number of checks between two requests for the size of a remote store."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.storage")

SizeOf = Callable[[], Awaitable[float]]
"""Returns the bytes of the database of the store."""


class _Behind(NamedTuple):
    revision: int
    since: float


class Monitor:
    """The state of the store and the fan-out of one server."""

    def __init__(
        self,
        storage: Storage,
        fanout: Fanout,
        clusters_prefix: str,
        *,
        database_file: Path | None = None,
        size_of: SizeOf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a monitor; `run` starts it.

        Args:
            storage: the store.
            fanout: the changes of the store.
            clusters_prefix: the prefix of the keys of LogicalClusters.
            database_file: the file of a local store.
            size_of: the size of a remote store.
            clock: seconds that do not go back.
        """
        self._storage = storage
        self._fanout = fanout
        self._file = database_file
        self._size_of = size_of
        self._clock = clock
        self._outage: float | None = None
        self._behind: _Behind | None = None
        self._revision = 0
        self._size: float | None = None
        self._clusters = ObjectCount(storage, fanout, clusters_prefix)
        self._looks = 0

    async def run(self, *, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Check until cancelled."""
        while True:
            await self.look()
            await sleep(INTERVAL_SECONDS)

    async def look(self) -> None:
        """Check once. A store that does not answer is not an error."""
        try:
            await self._storage.check()
            self._revision = await self._storage.revision()
            # History that is compacted during a long count is not an outage: the next check counts again.
            with contextlib.suppress(CompactedError):
                await self._clusters.load()
            if self._size_of is not None and self._looks % SIZE_EVERY == 0:
                self._size = await self._size_of()
            self._looks += 1
        except StorageError as error:
            if self._outage is None:
                self._outage = self._clock()
                _log.error("storage_unavailable", error=str(error))
            return
        if self._outage is not None:
            _log.info("storage_recovered", seconds=round(self._clock() - self._outage, 3))
            self._outage = None
        if self._behind is None or self._fanout.revision >= self._behind.revision:
            self._behind = _Behind(self._revision, self._clock()) if self._fanout.revision < self._revision else None

    @property
    def feed_lag(self) -> float:
        """The seconds for which the fan-out has been behind the store, or the store has not answered."""
        since = [self._outage] if self._outage is not None else []
        if self._behind is not None and self._fanout.revision < self._behind.revision:
            since.append(self._behind.since)
        return self._clock() - min(since) if since else 0.0

    def describe(self, gauges: Gauges) -> None:
        """Add the families."""
        gauges.add(
            "apiserver_storage_size_bytes",
            "Size of the storage database file physically allocated in bytes.",
            self._storage_size,
            labels=("storage_cluster_id",),
        )
        gauges.add("kcp_storage_wal_bytes", "Size of the SQLite write-ahead log.", self._log_size)
        gauges.add("kcp_storage_up", "Whether the store answers (1) or not (0).", lambda: float(self._outage is None))
        if (room := room_of(self._storage)) is not None:
            gauges.add(
                "kcp_storage_full",
                "Whether the disk of the store is full (1), so that deletions and small changes are taken only.",
                lambda: float(room.full),
            )
        gauges.add("kcp_storage_revision", "The revision of the store when it was last asked.", lambda: float(self._revision))
        gauges.add(
            "kcp_feed_revision", "The revision to which the store's changes have been followed.", lambda: float(self._fanout.revision)
        )
        gauges.add(
            "kcp_feed_lag_seconds",
            "For how long the feed has not come to a revision that the store has; 0 if it has.",
            lambda: self.feed_lag,
        )
        gauges.add("kcp_feed_watchers", "Watchers that are attached to the feed.", lambda: float(self._fanout.watchers))
        gauges.add("kcp_logical_clusters", "Logical clusters that are stored.", lambda: self._clusters.value)

    def _storage_size(self) -> dict[tuple[str, ...], float] | None:
        size = self._size if self._file is None else _file_size(self._file)
        return None if size is None else {("storage-0",): size}

    def _log_size(self) -> float | None:
        return None if self._file is None else _file_size(self._file.with_name(f"{self._file.name}-wal"))


def _file_size(path: Path) -> float | None:
    try:
        return float(path.stat().st_size)
    except OSError:
        return None
