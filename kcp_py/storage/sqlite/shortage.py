"""The writer on a full disk: releases the reserve, accepts writes that free space, and waits for free space."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import apsw
import structlog

from kcp_py.storage.contract import Compare, Operation, Put
from kcp_py.storage.sqlite.checksums import PAGE_SIZE
from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.room import Room
from kcp_py.storage.sqlite.state import fetch
from kcp_py.storage.sqlite.worker import Worker

_log: Final = structlog.get_logger("kcp_py.storage")

_INTERVAL: Final = 1.0
"""Seconds between two attempts to make the reserve again."""
_LITTLE_ROOM: Final = 4 << 20
"""A disk with more free bytes is not full, although a commit of many large values may not fit."""


class Shortage:
    """The state of the free space of the disk, and its checks."""

    def __init__(self, room: Room, database: Database, worker: Worker, *, look: Callable[[], None]) -> None:
        """Start with the reserve as it was when the database was opened.

        Args:
            room: the reserve.
            database: the opened file.
            worker: runs calls that wait for the disk.
            look: makes the writer call `ended` between two commits.
        """
        self.room = room
        self._database = database
        self._worker = worker
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        if room.full:
            _log.error("storage_full", free_bytes=room.free())
            self.watch()

    def close(self) -> None:
        """Stop the checks."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def watch(self) -> None:
        """Schedule the next check."""
        if not self._closed:
            self._timer = self._loop.call_later(_INTERVAL, self._look)

    def takes(self, connection: apsw.Connection, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Whether a transaction is accepted although the disk is full."""
        puts = [operation for operation in operations if isinstance(operation, Put)]
        existing = {compare.key for compare in compares if compare.mod_revision}
        ((free,),) = fetch(connection, "PRAGMA freelist_count")
        return self.room.leaves(
            sum(len(put.value) for put in puts),
            deletes=len(puts) < len(operations),
            updates=all(put.key in existing for put in puts),
            reusable=int(free) * PAGE_SIZE,
        )

    async def begins(self, connection: apsw.Connection) -> bool:
        """Release the reserve if a write failed because of the disk. Returns whether the disk was full.

        A limit of the file itself does not depend on the disk.
        """
        room = self.room
        if not room.kept or room.full or await self._worker.submit(room.free) > _LITTLE_ROOM:
            return False
        room.full = True
        _log.error("storage_full", free_bytes=room.free())

        def give_up() -> None:
            room.give_up()
            self._database.copy_log(connection, truncate=True)

        await self._worker.submit(give_up)
        self.watch()
        return True

    async def ended(self, connection: apsw.Connection) -> bool:
        """Create the reserve again if the disk has space. Returns whether it has."""

        def look() -> bool:
            self._database.copy_log(connection, truncate=True)
            return self.room.make()

        if not await self._worker.submit(look):
            return False
        self.room.full = False
        _log.warning("storage_room_again", free_bytes=self.room.free())
        return True
