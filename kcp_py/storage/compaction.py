"""The amount of history that a store keeps, and the loops that compact it.

An embedded store (`run_compaction`) bounds the age and the number of revisions: history older than `seconds` is removed, and so is
history beyond the last `revisions` changes, so that a burst of writes cannot fill the disk.

A store that several servers use (`run_shared_compaction`) is compacted as Kubernetes compacts etcd (`--etcd-compaction-interval`, the rule
of `storage/etcd3/compact.go`): once per interval, by the first server, at the revision of one interval ago, so that one to two intervals
are kept. A client that was disconnected for longer lists again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    FutureRevisionError,
    NoSpaceError,
    Put,
    Storage,
    StorageError,
    UnavailableError,
)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.storage")


class CompactionPolicy(NamedTuple):
    """The history that is kept."""

    seconds: float = 300.0
    """History younger than this is kept ..."""
    revisions: int = 500_000
    """... unless it is more than so many revisions ago."""
    interval: float = 10.0
    """Seconds between two checks, which is the precision of the age."""


class Compaction:
    """The rule as a pure state machine, without a clock or a store."""

    def __init__(self, policy: CompactionPolicy) -> None:
        self._policy = policy
        self._seen: deque[tuple[float, int]] = deque()
        self._compacted = 0

    def step(self, now: float, revision: int) -> int:
        """Record the current revision of the store.

        Args:
            now: seconds of a monotonic clock.
            revision: the revision of the store.

        Returns:
            The revision to compact at, or 0 for none.
        """
        seen = self._seen
        seen.append((now, revision))
        oldest_kept = now - self._policy.seconds
        while len(seen) > 1 and seen[1][0] <= oldest_kept:
            seen.popleft()
        by_age = seen[0][1] if seen[0][0] <= oldest_kept else 0
        target = max(by_age, revision - self._policy.revisions)
        return target if target > self._compacted else 0

    def compacted(self, revision: int) -> None:
        """Record that the store was compacted at a revision, by this or another server."""
        self._compacted = max(self._compacted, revision)


async def run_compaction(
    storage: Storage,
    policy: CompactionPolicy,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Compact a store until cancelled.

    If the store is full or unavailable, the next check tries again.

    Args:
        storage: the store.
        policy: the amount of history to keep.
        clock: monotonic seconds.
        sleep: waits.
    """
    compaction = Compaction(policy)
    outage = _Outage(policy.interval)
    while True:
        try:
            target = compaction.step(clock(), await storage.revision())
            if target:
                await storage.compact(target)
                compaction.compacted(target)
                _log.debug("storage_compacted", revision=target)
            outage.ended()
        except CompactedError as error:
            compaction.compacted(error.compact_revision)
        except (FutureRevisionError, NoSpaceError, UnavailableError) as error:
            outage.failed(error)
        await sleep(policy.interval)


class _Outage:
    """Logs the first of several consecutive failures, and their end."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._failing = False

    def failed(self, error: StorageError) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("compaction_failed", error=str(error), retry_seconds=self._interval)

    def ended(self) -> None:
        if self._failing:
            self._failing = False
            _log.info("compaction_recovered")


class SharedCompaction:
    """One server's part in the compaction of a store that several servers use.

    A record in the store contains the last compacted revision. The server that replaces the record, unchanged since one interval ago,
    compacts. The others see the new record. Servers therefore neither repeat compactions nor need to know each other. The record is below
    the prefix of the servers (unlike upstream's `compact_rev_key`), so permissions for that prefix are sufficient. Servers with different
    prefixes compact independently, which is harmless.
    """

    def __init__(self, storage: Storage, record_key: str) -> None:
        """`record_key` is the record's key, the same for all servers."""
        self._storage = storage
        self._key = record_key
        self._record = 0
        """The mod revision of the record at the last check; 0 if it did not exist."""
        self._revision = 0
        """The revision of the store at the last check; 0 if unknown."""
        self._compacted = 0

    async def look(self) -> None:
        """Compact at the revision of the last check, unless another server has compacted since.

        If only the record was written since, nothing is done, so that an idle store stays idle.

        Raises:
            UnavailableError: the store is unavailable. The next check compacts.
        """
        current = await self._storage.revision()
        if 0 < current == self._record:
            await self._compact(current)
            return
        try:
            written = await self._storage.transact(
                [Compare(self._key, mod_revision=self._record)], [Put(self._key, str(self._revision).encode())]
            )
        except ConflictError as conflict:
            self._record = conflict.current.mod_revision if conflict.current is not None else 0
            self._revision = current
        except NoSpaceError:
            # The store is full, and only a compaction frees space. Two servers may compact, which is harmless.
            await self._compact(self._revision)
            self._revision = current
        else:
            past, self._record, self._revision = self._revision, written, written
            await self._compact(past)

    async def _compact(self, revision: int) -> None:
        if revision <= self._compacted:
            return
        try:
            await self._storage.compact(revision)
        except CompactedError as error:
            self._compacted = error.compact_revision
        except FutureRevisionError:
            # The store was replaced by an older copy.
            self._record = self._revision = self._compacted = 0
        else:
            self._compacted = revision
            _log.info("storage_compacted", revision=revision)


async def run_shared_compaction(
    storage: Storage, record_key: str, interval: float, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Take part in the compaction of a shared store until cancelled.

    Args:
        storage: the store.
        record_key: see `SharedCompaction`.
        interval: seconds; history younger than this is kept.
        sleep: waits.
    """
    compaction = SharedCompaction(storage, record_key)
    outage = _Outage(interval)
    while True:
        try:
            await compaction.look()
        except UnavailableError as error:
            outage.failed(error)
        else:
            outage.ended()
        await sleep(interval)
