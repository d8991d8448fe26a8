"""`ListBudget`: how many bytes of lists are held at once for the clients of one logical cluster.

A list is held from its first read until the connection has taken it. Clients that do not read, and those that ask for everything again
and again, would otherwise fill the memory of all. Upstream weighs lists by the objects that they read (`flowcontrol`, work estimator).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import too_many_requests

MAX_CLUSTER_BYTES: Final = 256 * 1024 * 1024
"""The default of `ListBudget`."""
RETRY_AFTER_SECONDS: Final = 1

_UNKNOWN_BYTES: Final = 1024 * 1024
"""What a list is taken for that has not been answered before."""
_REMEMBERED: Final = 4096
_READING_AT_ONCE: Final = 8
"""Lists of a cluster whose first page is being read: its size counts only when it was read."""


class Share:
    """What one list holds."""

    __slots__ = ("_budget", "_cluster", "_first_reads", "_held", "_in_turn", "largest")

    def __init__(self, budget: ListBudget, cluster: str, first_reads: asyncio.Semaphore) -> None:
        self._budget = budget
        self._cluster = cluster
        self._first_reads = first_reads
        self._held = 0
        self._in_turn = False
        self.largest = 0

    async def begin(self) -> None:
        """Wait for the turn to read the first page. The turn ends with the next `hold`, or with the list."""
        await self._first_reads.acquire()
        self._in_turn = True

    def end_turn(self) -> None:
        """Let the next list of the cluster begin; safe to call twice."""
        if self._in_turn:
            self._in_turn = False
            self._first_reads.release()

    def hold(self, size: int, *, started: bool = False) -> None:
        """Hold this number of bytes instead of the one before.

        Args:
            size: in bytes.
            started: whether the answer is on its way, so that it can no longer be refused.

        Raises:
            StatusError: 429, the lists of the cluster hold too much.
        """
        self.end_turn()
        self.largest = max(self.largest, size)
        held = self._budget.held
        total = held.get(self._cluster, 0) + size - self._held
        if size > self._held and total > self._budget.limit and not started:
            raise too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)
        self._held = size
        if total:
            held[self._cluster] = total
        else:
            held.pop(self._cluster, None)


class ListBudget:
    """Counts by logical cluster; lists over all clusters have a budget of their own.

    Attributes:
        limit: in bytes, for each cluster.
        held: cluster -> bytes; nothing for those without a list under way.
    """

    def __init__(self, limit: int = MAX_CLUSTER_BYTES) -> None:
        self.limit = limit
        self.held: dict[str, int] = {}
        self._sizes: LRU[str, int] = LRU(_REMEMBERED)
        self._first_reads: dict[str, asyncio.Semaphore] = {}

    @contextmanager
    def share(self, cluster: str, prefix: str) -> Iterator[Share]:
        """Take part for the time of one list, at first with the size that the like had before.

        Args:
            cluster: whose budget it is.
            prefix: of the keys that are listed.

        Raises:
            StatusError: 429, there is no room for it.
        """
        first_reads = self._first_reads.get(cluster)
        if first_reads is None:
            first_reads = self._first_reads[cluster] = asyncio.Semaphore(_READING_AT_ONCE)
        share = Share(self, cluster, first_reads)
        key = f"{cluster}|{prefix}"
        size = self._sizes.get(key)
        # List sizes are estimates. A list is always admitted when no other list of its cluster is running.
        share.hold(_UNKNOWN_BYTES if size is None else size, started=cluster not in self.held)
        share.largest = 0
        try:
            yield share
        finally:
            share.hold(0)
            self._sizes.set(key, share.largest)
            if cluster not in self.held:
                self._first_reads.pop(cluster, None)
