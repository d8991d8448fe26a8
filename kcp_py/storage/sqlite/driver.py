"""The SQLite driver: the reader, the writer and the feed of one file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import apsw

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    FutureRevisionError,
    KeyValue,
    NoSpaceError,
    Operation,
    StorageError,
    UnavailableError,
)
from kcp_py.storage.feed import Changes, Feed
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.sqlite.checkpoint import Checkpointer
from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.errors import DatabaseFileError, may_lack_room, translated
from kcp_py.storage.sqlite.filereads import NOT_OPEN, FileReads
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.reader import Reader
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.room import Room
from kcp_py.storage.sqlite.state import read_state
from kcp_py.storage.sqlite.worker import Worker
from kcp_py.storage.sqlite.writer import FollowsCommits, Writer
from kcp_py.storage.validation import check_transaction

PROGRESS_INTERVAL: Final = 0.05
HOT_KEYS: Final = 2_000
HOT_BYTES: Final = 4 << 20
SPAN_BYTES: Final = 32 << 20
ROOM_TO_OPEN: Final = 1 << 20


class SQLiteStorage(FileReads["_Parts"]):
    """A `Storage` in one SQLite file, for one process.

    Raises, when entered, the errors of `kcp_py.storage.sqlite.errors`, with nothing changed on the disk.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_pages: int = 0,
        progress_interval: float = PROGRESS_INTERVAL,
        checkpoint_bytes: int = 16 << 20,
        hot_keys: int = HOT_KEYS,
        hot_bytes: int = HOT_BYTES,
        span_bytes: int = SPAN_BYTES,
        reserve_bytes: int = 0,
        follower: FollowsCommits | None = None,
    ) -> None:
        """Configure the store. The file is opened when the context is entered.

        Args:
            path: the database file. It is created if it does not exist; its directory has to exist.
            max_pages: the file's largest size in pages of 4 KiB; 0 for no limit.
            progress_interval: seconds until watches without events receive the revision of a write.
            checkpoint_bytes: the size of the write-ahead log at which it is copied into the file.
            hot_keys: the number of recently read keys that are cached.
            hot_bytes: the total size of their values.
            span_bytes: the size of the cache of rendered ranges.
            reserve_bytes: disk space reserved for deletions on a full disk; 0 for none.
            follower: called at commits, for other processes that read the file; None for none.
        """
        self._follower = follower
        self._reserve_bytes = reserve_bytes
        self._path = path
        self._max_pages = max_pages
        self._progress_interval = progress_interval
        self._checkpoint_bytes = checkpoint_bytes
        super().__init__(hot_keys=hot_keys, hot_bytes=hot_bytes, span_bytes=span_bytes)

    async def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        # Without `_opened`: nothing is called as often.
        parts = self._parts
        if parts is None:
            raise UnavailableError(NOT_OPEN)
        item = parts.hot.get(key)
        if item is None:
            item = parts.reader.get(key)
            if item is not None:
                parts.hot.remember(item)
        return item

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        # Without `_opened`, as in `get`.
        parts = self._parts
        if parts is None:
            raise UnavailableError(NOT_OPEN)
        check_transaction(compares, operations)
        return await parts.writer.submit(compares, operations)

    async def revision(self) -> int:
        """`Storage.revision`."""
        parts = self._opened()
        return max(parts.writer.revision, parts.reader.seen)

    async def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        writer = self._opened().writer
        if revision > (current := await self.revision()):
            raise FutureRevisionError(revision, current)
        if revision <= writer.compact_revision:
            raise CompactedError(revision, writer.compact_revision)
        await writer.submit((), (), compact=revision)

    async def check(self) -> None:
        """`Storage.check`."""
        parts = self._opened()
        if parts.writer.broken is not None:
            raise UnavailableError(str(parts.writer.broken))
        parts.check_place()
        parts.reader.state()

    @property
    def full(self) -> bool:
        """Whether the disk is full, so that only deletions and small changes are accepted."""
        return self._parts is not None and self._parts.writer.room.full

    async def __aenter__(self) -> Self:
        if self._parts is not None:
            raise UnavailableError("the store is open already")
        self._parts = await _Parts.open(
            self._path,
            max_pages=self._max_pages,
            progress_interval=self._progress_interval,
            checkpoint_bytes=self._checkpoint_bytes,
            hot=self._new_hot(),
            range_cache=self.range_cache,
            reserve_bytes=self._reserve_bytes,
            follower=self._follower,
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._parts is not None:
            parts, self._parts = self._parts, None
            await parts.close()
            self.range_cache.clear()


def _open(path: str | Path, max_pages: int) -> tuple[Database, apsw.Connection]:
    database = Database(path, max_pages=max_pages)
    try:
        connection = database.connect(writer=True)
    except apsw.Error as error:
        database.close()
        raise translated(error) from error
    return database, connection


class _Parts:
    """The parts of an open store."""

    def __init__(
        self,
        database: Database,
        connection: apsw.Connection,
        worker: Worker,
        *,
        progress_interval: float,
        checkpoint_bytes: int,
        hot: HotKeys,
        range_cache: RangeCache,
        room: Room,
        follower: FollowsCommits | None,
    ) -> None:
        state = read_state(connection)
        self._database = database
        self._worker = worker
        self._recent = RecentWrites(state.revision)
        self.reader = Reader(database, self._recent)
        self.hot = hot
        self.feed = Feed(self._read_changes, revision=state.revision, progress_interval=progress_interval)
        # The copy of the log must fit into the reserve. Otherwise the log would keep its space forever.
        threshold = min(checkpoint_bytes, room.size // 2) if room.kept else checkpoint_bytes
        self._checkpointer = Checkpointer(database, threshold, copied=self._copy_rest, damaged=self._damaged)
        self.writer = Writer(
            database,
            connection,
            worker,
            room,
            read_changes=self._read_all_changes,
            publish=self.feed.publish,
            written=self._checkpointer.written,
            hot=hot,
            range_cache=range_cache,
            recent=self._recent,
            follower=follower,
        )
        range_cache.compacted(state.compact_revision)

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        max_pages: int,
        progress_interval: float,
        checkpoint_bytes: int,
        hot: HotKeys,
        range_cache: RangeCache,
        reserve_bytes: int,
        follower: FollowsCommits | None,
    ) -> _Parts:
        worker = Worker("sqlite-commit")

        def connect() -> tuple[Database, apsw.Connection, Room]:
            room = Room(os.path.realpath(path), reserve_bytes)
            try:
                database, connection = _open(path, max_pages)
            except StorageError as error:
                # Without free space SQLite cannot open a database.
                if room.free() >= ROOM_TO_OPEN or not may_lack_room(error):
                    raise
                if not room.give_up():
                    raise NoSpaceError(f"no room is left on the disk of {room.database}: make some, a megabyte at least") from error
                room.full = True
                database, connection = _open(path, max_pages)
            opened.append((database, connection))
            room.full = room.full or not room.make()
            return database, connection, room

        opened: list[tuple[Database, apsw.Connection]] = []
        try:
            database, connection, room = await worker.submit(connect)
        except BaseException:
            # After a cancellation, such as by Ctrl-C, the thread still finishes its job.
            worker.stop()
            for database, connection in opened:
                database.close_writer(connection)
                database.close()
            raise
        return cls(
            database,
            connection,
            worker,
            progress_interval=progress_interval,
            checkpoint_bytes=checkpoint_bytes,
            hot=hot,
            range_cache=range_cache,
            room=room,
            follower=follower,
        )

    def check_place(self) -> None:
        """Check that the file is at its path, and refuse writes until it is."""
        try:
            self._database.check_place()
        except DatabaseFileError as error:
            self.writer.pause(error)
            raise UnavailableError(str(error)) from error

    async def close(self) -> None:
        self.feed.close()
        await self.writer.close()
        await self._checkpointer.close()
        await self.reader.close()
        await self._worker.submit(lambda: self._database.close_writer(self.writer.connection))
        self._worker.stop()
        self._database.close()

    def _damaged(self, error: StorageError) -> None:
        self.writer.give_up(error)

    def _copy_rest(self) -> None:
        self.writer.copy_rest()

    def _read_all_changes(self, after: int, until: int) -> Changes:
        return self.reader.changes("", after, until)

    async def _read_changes(self, prefix: str, after: int, until: int) -> Changes:
        changes = self.reader.changes(prefix, after, until)
        await asyncio.sleep(0)
        return changes
