"""How much history a store keeps, and the loop that sees to it with any driver.

Kubernetes lets etcd keep five to ten minutes (`--etcd-compaction-interval`); a client that was away for longer lists anew. Here age and
number are both bounded: what is older than `seconds` goes, and of the rest what is more than `revisions` changes ago, so that a burst of
writes cannot fill the disk with history. Several servers may run the loop on one store: whoever comes second is told, and goes on from
there.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kcp_py.storage.contract import CompactedError, FutureRevisionError, NoSpaceError, Storage, UnavailableError


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
    while True:
        try:
            target = compaction.step(clock(), await storage.revision())
            if target:
                await storage.compact(target)
                compaction.compacted(target)
        except CompactedError as error:
            compaction.compacted(error.compact_revision)
        except (FutureRevisionError, NoSpaceError, UnavailableError):
            pass
        await sleep(policy.interval)
