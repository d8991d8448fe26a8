"""How much history a store keeps, and the loops that see to it.

An embedded store (`run_compaction`) bounds age and number: what is older than `seconds` goes, and of the rest what is more than `revisions`
changes ago, so that a burst of writes cannot fill the disk with history.

A store that several servers use (`run_shared_compaction`) is compacted as Kubernetes compacts etcd (`--etcd-compaction-interval`, the rule
of `storage/etcd3/compact.go`): once an interval, by whichever server comes first, at the revision of an interval ago, so that one to two
intervals are kept. A client that was away for longer lists anew.
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
    """What is kept."""

    seconds: float = 300.0
    """History younger than this is kept ..."""
    revisions: int = 500_000
    """... unless it is more than so many revisions ago."""
    interval: float = 10.0
    """Seconds between two looks; the age is exact to this."""


class Compaction:
    """The rule, without a clock or a store of its own."""

    def __init__(self, policy: CompactionPolicy) -> None:
        self._policy = policy
        self._seen: deque[tuple[float, int]] = deque()
        self._compacted = 0

    def step(self, now: float, revision: int) -> int:
        """Take note of where the store is.

        Args:
            now: seconds on any clock that does not go back.
            revision: the store's.

        Returns:
            The revision to compact at, or 0 where there is nothing to do.
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
        """Take note that the store was compacted at a revision, by whomever."""
        self._compacted = max(self._compacted, revision)


async def run_compaction(
    storage: Storage,
    policy: CompactionPolicy,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Compact a store for ever; cancel to end.

    A store that is full or cannot be reached is tried again at the next look.

    Args:
        storage: the store.
        policy: how much is kept.
        clock: seconds that do not go back.
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
    """Logs the first of several failures in a row, and their end."""

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

    A record in the store says which revision was compacted last. Who replaces it as it stood an interval ago compacts, all others learn
    that somebody has; so servers neither repeat each other's compactions nor have to know of each other. It is written below the servers'
    own prefix (upstream's `compact_rev_key` is not), so that rights on that prefix suffice; servers with different prefixes compact
    independently, which does no harm.
    """

    def __init__(self, storage: Storage, record_key: str) -> None:
        """`record_key` is the record's key, the same for all servers."""
        self._storage = storage
        self._key = record_key
        self._record = 0
        """The record's mod revision at the last look; 0: there was none."""
        self._revision = 0
        """The store's revision at the last look; 0: unknown."""
        self._compacted = 0

    async def look(self) -> None:
        """Compact at the revision of the last look, unless another server has done so since.

        A store in which nothing but the record was written is not written to, so that an idle one stays idle.

        Raises:
            UnavailableError: the store cannot be reached; the next look makes up for it.
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
            # The record has no room, and nothing else will have before history goes: better twice than never.
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
    """Take part in a shared store's compaction for ever; cancel to end.

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
