"""What the writer does about a full disk: gives the reserve up, takes what makes room, and looks for room again."""

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
"""A disk with more bytes than this is not full; a commit of many large values may not fit all the same."""


class Shortage:
    """The state of the disk's room, and the looks at it."""

    def __init__(self, room: Room, database: Database, worker: Worker, *, look: Callable[[], None]) -> None:
        """Take the reserve as it was found when the database was opened.

        Args:
            room: the reserve.
            database: the opened file.
            worker: where calls that wait for the disk run.
            look: asks the writer to call `ended` between two commits.
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
        """Look no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def watch(self) -> None:
        """Have a look a while later."""
        if not self._closed:
            self._timer = self._loop.call_later(_INTERVAL, self._look)

    def takes(self, connection: apsw.Connection, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Whether a transaction is taken although the disk is full."""
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
        """Give the reserve up, if that is what a write lacked; returns whether the disk was full.

        A limit of the file itself is no matter of the disk.
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
        """Make the reserve again, if there is room for it; returns whether there is."""

        def look() -> bool:
            self._database.copy_log(connection, truncate=True)
            return self.room.make()

        if not await self._worker.submit(look):
            return False
        self.room.full = False
        _log.warning("storage_room_again", free_bytes=self.room.free())
        return True
