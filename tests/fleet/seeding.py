"""Copies of a template in a store, up to a number of clusters, and how far earlier runs have come."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kcp_py.storage.contract import Put, Storage
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.tenancy.logicalcluster import logical_cluster_keys
from tests.fleet.template import ROOT, Template, read_template

TEMPLATE: Final = "fleet-template"
_OPERATIONS: Final = 480
"""Of one transaction, at most. The store removes the history of 500 writes with each commit, so it does not grow while it is seeded."""
_COMPACTED_EVERY: Final = 50

Progress = Callable[[int], None]
"""Called with the number of clusters that exist."""


def cluster_name(number: int) -> str:
    """The name of a seeded cluster. Numbers are in the order of keys."""
    return f"f{number:08}"


async def seed(database: Path, count: int, *, progress: Progress, deadline: float = float("inf")) -> int:
    """Copy the cluster `TEMPLATE` of a store until there are so many copies. Every transaction has whole clusters.

    Args:
        database: the file of a store that no server uses.
        count: how many copies are wanted.
        progress: called after each transaction.
        deadline: on the clock `time.monotonic`; the copies are continued by the next call.

    Returns:
        How many copies there are.
    """
    async with SQLiteStorage(database) as storage:
        template = await read_template(storage, TEMPLATE)
        return await copy_clusters(storage, template, count, progress=progress, deadline=deadline)


async def copy_clusters(storage: Storage, template: Template, count: int, *, progress: Progress, deadline: float) -> int:
    """`seed` for a store that is open."""
    number = await seeded(storage, count)
    together = max(1, _OPERATIONS // template.keys)
    transactions = 0
    while number < count and time.monotonic() < deadline:
        operations: list[Put] = []
        for one in range(number, min(count, number + together)):
            operations += template.copy(cluster_name(one))
        revision = await storage.transact((), operations)
        number = min(count, number + together)
        transactions += 1
        if transactions % _COMPACTED_EVERY == 0:
            await storage.compact(revision)
        progress(number)
    return number


async def seeded(storage: Storage, most: int) -> int:
    """How many copies a store has, from the first on; at most so many."""
    keys = logical_cluster_keys(ROOT)
    first, last = 0, most
    while first < last:
        middle = (first + last) // 2
        if await storage.get(f"{keys.prefix}{cluster_name(middle)}/cluster"):
            first = middle + 1
        else:
            last = middle
    return first
