"""`Checks`: has all objects with owners checked once, and remembers the progress across restarts (docs/adr/0043)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS, GroupResource
from kcp_py.client import ObjectChange, ObjectFilter
from kcp_py.client.scanning import Checkpoint, ScanProgress
from kcp_py.controllers.garbage.ownership import CONCERNING
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.logicalcluster import Name

CHECK: Final = "?"
"""The key that causes a check of all objects of a cluster."""
SAVE_SECONDS: Final = 60.0
"""Between two checkpoints."""
SCAN_SAVE_SECONDS: Final = 10.0
"""Between two checkpoints while stored objects are read, so that servers that are restarted often come to an end."""
MOST_PENDING: Final = 1_000
"""Clusters with unfinished work that a checkpoint may name."""
MOST_CHANGED: Final = 500
"""Clusters whose changes since a checkpoint are dealt with one by one."""

_NAME: Final = "garbage-collection"
_IGNORED: Final = frozenset((GroupResource("", "events"), GroupResource("events.k8s.io", "events")))

CONCERNED: Final = ObjectFilter(contains=CONCERNING, ignored=_IGNORED, always=frozenset((CRDS.group_resource,)))
"""Objects that may have owners or wait for dependents, removals, and changes of what a cluster serves."""
_CAUSES: Final = CONCERNED._replace(always=frozenset())
"""Changes after which a cluster has to be checked. Clusters that wait for a CRD are in the checkpoint."""


class Checks:
    """The checks of one collector.

    A checkpoint is true whenever it is written: all changes up to its revision have been dealt with, except in the clusters that it
    names, and so have all stored objects before its position. So it does not matter which process wrote it, or whether it is old.
    """

    def __init__(
        self,
        progress: ScanProgress,
        queue: WorkQueue,
        examine: Callable[[ObjectChange], Awaitable[None]],
        *,
        unresolved: Collection[Name],
        missed: asyncio.Event,
        seconds: float = SAVE_SECONDS,
    ) -> None:
        """Prepare.

        Args:
            progress: reads the store.
            queue: of the collector; all its unfinished work has keys in it.
            examine: queues a stored object that needs work.
            unresolved: clusters that have to be checked again when a CRD is created; the collector changes it.
            missed: set when changes were missed, until all is checked again.
            seconds: between two checkpoints.
        """
        self._progress = progress
        self._queue = queue
        self._examine = examine
        self._unresolved = unresolved
        self._missed = missed
        self._seconds = seconds
        self._position: str | None = ""
        self._saved = 0
        """The latest checkpoint covers all writes up to this revision."""
        self._saved_position: str | None = ""
        self._due = 0.0
        """When the next checkpoint is written, on the clock of the event loop."""

    async def run(self) -> None:
        """Check the changes since the checkpoint, and the objects that it leaves out; without a checkpoint, all objects.

        Raises:
            StatusError: the store cannot be read.
        """
        self._position = ""
        self._postpone()
        checkpoint = await self._progress.load(_NAME)
        if checkpoint is not None:
            changed = await self._progress.changed_clusters(checkpoint.revision, concerned=_CAUSES, most=MOST_CHANGED)
            if changed is not None:
                for cluster in {*changed, *checkpoint.clusters}:
                    self._queue.add(Key(cluster, "", CHECK))
                self._position = self._saved_position = checkpoint.position
        if self._position is None:
            return
        async with aclosing(self._progress.scan(self._position, concerned=CONCERNED)) as pages:
            async for page in pages:
                for change in page.objects:
                    await self._examine(change)
                self._position = page.position
                await self.save_if_due()
        self._position = None
        if self._saved_position:
            # A server that is restarted often must not read the rest again each time.
            self._due = 0.0
            await self.save_if_due()

    async def save_if_due(self) -> None:
        """Write a checkpoint, if the latest one is old and something has changed since."""
        if asyncio.get_running_loop().time() < self._due:
            return
        self._postpone()
        revision = self._progress.revision
        pending = self._queue.clusters() | set(self._unresolved)
        position = self._position
        unchanged = revision <= self._saved and position == self._saved_position
        if self._missed.is_set() or unchanged or len(pending) > MOST_PENDING:
            return
        try:
            written = await self._progress.save(_NAME, Checkpoint(revision, pending, position))
            self._saved = written if written == revision + 1 else revision
            self._saved_position = position
        except StatusError:
            return  # the store may be full: the older checkpoint stays true

    def _postpone(self) -> None:
        seconds = self._seconds if self._position is None else min(self._seconds, SCAN_SAVE_SECONDS)
        self._due = asyncio.get_running_loop().time() + seconds
