"""Copies the write-ahead log into the database file without blocking writes.

A separate connection and thread copy most of the log while commits continue. The few pages that were written in the meantime are copied
after a commit, in the thread of the commit. Then the file contains the whole log, and the next commit restarts the log. A range read
with an old snapshot prevents this; the log grows, and the checkpoint is repeated after the next amount of writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.errors import CorruptDatabaseError
from kcp_py.storage.sqlite.worker import Worker

_IDLE: Final = 1.0
"""Seconds without a write after which the log is copied, so that the next start has little to recover."""


class Checkpointer:
    """Decides when to checkpoint, and runs checkpoints."""

    def __init__(
        self, database: Database, threshold: int, *, copied: Callable[[], None], damaged: Callable[[CorruptDatabaseError], None]
    ) -> None:
        """Connect.

        Args:
            database: the file.
            threshold: the number of bytes since the last checkpoint that triggers the next one.
            copied: called after the first part, to copy the rest.
            damaged: called if the log is damaged and is not copied any more.
        """
        self._database = database
        self._connection = database.connect()
        self._worker = Worker("sqlite-checkpoint")
        self._threshold = threshold
        self._copied = copied
        self._damaged = damaged
        self._written = 0
        self._running: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    def written(self, size: int) -> None:
        """Record that a commit added about `size` bytes to the log."""
        self._written += size
        loop = asyncio.get_running_loop()
        if self._running is None and self._written > self._threshold:
            self._start()
        elif self._idle is None:
            self._idle = loop.call_later(_IDLE, self._look, self._written)

    async def close(self) -> None:
        """Stop, and wait for a running checkpoint."""
        if self._idle is not None:
            self._idle.cancel()
        if self._running is not None:
            await self._running
        self._worker.stop()
        self._connection.close()

    def _look(self, seen: int) -> None:
        self._idle = None
        if self._running is not None or not self._written:
            return
        if self._written == seen:
            self._start()
        else:
            self._idle = asyncio.get_running_loop().call_later(_IDLE, self._look, self._written)

    def _start(self) -> None:
        self._written = 0
        self._running = asyncio.get_running_loop().create_task(self._checkpoint(), name="sqlite-checkpoint")

    async def _checkpoint(self) -> None:
        try:
            await self._worker.submit(lambda: self._database.copy_log(self._connection))
        except CorruptDatabaseError as error:
            self._damaged(error)
            return
        finally:
            self._running = None
        self._copied()
