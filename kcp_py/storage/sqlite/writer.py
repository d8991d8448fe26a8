"""Writes: callers queue transactions, and one task commits all queued transactions as one SQLite transaction.

The transaction of each caller has its own compares and its own revision. The statements run on the event loop and change only memory. The
commit, which waits for the disk, runs in the worker thread while the next group is queued. Neither callers nor watchers receive a write
before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Protocol

import apsw
import structlog

from kcp_py.storage.contract import (
    Compare,
    DamagedError,
    Event,
    NoSpaceError,
    Operation,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
)
from kcp_py.storage.feed import Changes
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, translated
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.purging import any_to_purge, purge
from kcp_py.storage.sqlite.queue import Request, WriteQueue, new_request
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.recovery import is_failed_sync, reopen
from kcp_py.storage.sqlite.room import Room
from kcp_py.storage.sqlite.shortage import Shortage
from kcp_py.storage.sqlite.state import State, read_state
from kcp_py.storage.sqlite.transaction import Transactions
from kcp_py.storage.sqlite.worker import Worker

_log: Final = structlog.get_logger("kcp_py.storage")

_LONGEST_TURN: Final = 0.002
"""Seconds for which the statements of a group block the event loop."""
_COMMIT_OVERHEAD: Final = 12_000
"""Bytes of the log that a commit takes for the last pages of the tables (measured) ..."""
_WRITE_OVERHEAD: Final = 5_000
"""... and a write for the page of its key, in addition to the value."""
_RETRY: Final = 1.0
"""Seconds between two attempts to reopen the file."""
_BUSY_RETRY: Final = 0.01
_BUSY_TRIES: Final = 500

_SET_COMPACTED: Final = "UPDATE meta SET number = ? WHERE name = 'compact_revision'"


class FollowsCommits(Protocol):
    """What tells other processes, which read the file themselves, of commits."""

    def reset(self, revision: int) -> None:
        """The store was opened at a revision."""
        ...

    def committing(self, revision: int) -> None:
        """A commit up to a revision begins. It may fail."""
        ...

    def committed(self, revision: int) -> None:
        """A commit has ended; nothing of it is acknowledged yet."""
        ...

    def room_changed(self, full: bool) -> None:  # noqa: FBT001 - the one argument of a callback
        """The disk has room for deletions alone, or for all writes."""
        ...


class Writer:
    """The only part that changes the database."""

    def __init__(
        self,
        database: Database,
        connection: apsw.Connection,
        worker: Worker,
        room: Room,
        *,
        read_changes: Callable[[int, int], Changes],
        publish: Callable[[Sequence[Event], int], None],
        written: Callable[[int], None],
        hot: HotKeys,
        range_cache: RangeCache,
        recent: RecentWrites,
        follower: FollowsCommits | None,
    ) -> None:
        """Start with the writing connection.

        Args:
            database: creates the connection, also after a failed commit.
            connection: the writing connection, which no other part uses.
            worker: runs commits.
            room: the reserve as it was when the database was opened.
            read_changes: reads all changes (after a revision, until a revision).
            publish: called with the events and the revision of each commit, in order.
            written: called with the approximate number of bytes that a commit added to the log.
            hot: drops the written keys.
            range_cache: drops the spans of the written keys.
            recent: records the written keys.
            follower: called before and after each commit that changes keys, before any caller or watcher receives it; None for nothing.
        """
        state = read_state(connection)
        self._follower = follower
        if follower is not None:
            follower.reset(state.revision)
            room.follow(follower.room_changed)
        self.revision = state.revision
        """The revision of the last commit."""
        self.compact_revision = state.compact_revision
        self.broken: StorageError | None = None
        """The reason why writes are refused: a commit failed, and the file is not reopened yet."""
        self.room = room
        self._unsynced = False
        self._for_good = False
        self._read_changes = read_changes
        self._database = database
        self._connection = connection
        self._cursor = connection.cursor()
        self._transactions = Transactions(connection, hot, range_cache, recent)
        self._worker = worker
        self._publish = publish
        self._written = written
        self._hot = hot
        self._recent = recent
        self._range_cache = range_cache
        self._queue = WriteQueue()
        self._closing = False
        self._copy_rest = False
        self._looks_for_room = False
        self._purging = any_to_purge(connection, state.compact_revision)
        connection.set_busy_timeout(0)
        self._loop = asyncio.get_running_loop()
        self._shortage = Shortage(room, database, worker, look=self._schedule_look)
        self._task = self._loop.create_task(self._run(), name="sqlite-writer")

    @property
    def connection(self) -> apsw.Connection:
        """The writing connection; a new one after a failed commit."""
        return self._connection

    def submit(self, compares: Sequence[Compare], operations: Sequence[Operation], *, compact: int = 0) -> asyncio.Future[int]:
        """Queue a transaction (or a compaction); the future has its revision or its error."""
        if self._closing:
            raise UnavailableError("the store is closing")
        if self.broken is not None:
            raise UnavailableError(str(self.broken))
        future = self._loop.create_future()
        self._queue.put(new_request((future, compares, operations, compact)))
        return future

    def copy_rest(self) -> None:
        """Checkpoint once, after the next commit, which is made even without writes."""
        self._copy_rest = True
        self._queue.wake()

    async def close(self) -> None:
        """Run the queued transactions, then end."""
        self._closing = True
        self._shortage.close()
        self._queue.wake()
        await self._task

    async def _run(self) -> None:
        while True:
            if self.broken is not None and not self._for_good and not self._closing:
                await self._reopen()
            elif self._queue:
                await self._commit(await self._queue.gather())
                if self.broken is None:
                    self._hot.committed()
                else:
                    self._hot.clear()  # the last commit may be durable or not
                self._range_cache.committed()
            elif self._closing:
                return
            elif self._looks_for_room:
                self._looks_for_room = False
                await self._look_for_room()
            elif self._copy_rest or self._purging:
                await self._commit([])
            else:
                await self._queue.wait()

    async def _commit(self, group: list[Request]) -> None:
        """Run a group. Afterwards all its futures are done."""
        if self._refuse(group):
            return
        try:
            answers, events, state = await self._carry_out(group)
        except Exception as error:  # noqa: BLE001 - passed to the callers, because the task that serves all of them must not end
            self._roll_back()
            problem = translated(error) if isinstance(error, apsw.Error) else error
            if self.broken is not None and not self._for_good:
                problem = UnknownOutcomeError(str(self.broken))
            if isinstance(problem, DamagedError) and len(group) == 1:
                problem = DamagedError([operation.key for operation in group[0].operations])
            if isinstance(problem, NoSpaceError) and await self._shortage.begins(self._connection):
                await self._commit(group)
                return
            if len(group) > 1 and self.broken is None and not isinstance(problem, UnavailableError):
                # If one large value did not fit, the other transactions must not fail.
                for request in group:
                    await self._commit([request])
                return
            self._purging = self._copy_rest = False  # tried again with the next compaction and the next checkpoint
            for request in group:
                if not request.future.done():
                    request.future.set_exception(problem)
            return
        self.revision, self.compact_revision = state
        self._range_cache.compacted(state.compact_revision)
        if events:
            self._tell(events, state.revision)
        for future, answer in answers:
            if not future.done():
                if isinstance(answer, int):
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    def _tell(self, events: list[Event], revision: int) -> None:
        if self._follower is not None:
            self._follower.committed(revision)
        self._publish(events, revision)

    def _refuse(self, group: list[Request]) -> bool:
        """Refuse all transactions if writes are refused."""
        if self.broken is None:
            return False
        for request in group:
            if not request.future.done():
                request.future.set_exception(UnavailableError(str(self.broken)))
        return True

    async def _carry_out(self, group: list[Request]) -> tuple[list[tuple[asyncio.Future[int], int | StorageError]], list[Event], State]:
        await self._begin()
        revision, compact_revision = self.revision, self.compact_revision
        answers: list[tuple[asyncio.Future[int], int | StorageError]] = []
        events: list[Event] = []
        room, transactions, turn = self.room, self._transactions, perf_counter() + _LONGEST_TURN
        transactions.begin()
        transactions.prefetch([(compares, operations) for future, compares, operations, _ in group if not future.done()])
        for future, compares, operations, compact in group:
            if future.done():
                continue  # the caller was cancelled before the write began
            if compact:
                answer = State(revision, compact_revision).refuses(compact)
                if answer is None:
                    compact_revision = compact
                answers.append((future, answer or revision))
                continue
            if room.full:
                for _ in transactions.flush():  # the free pages show the effect of earlier transactions
                    pass
                if not self._shortage.takes(self._connection, compares, operations):
                    answers.append((future, NoSpaceError("the disk is full: nothing but deletions and small changes is taken")))
                    continue
            conflict = transactions.carry_out(compares, operations, revision + 1, events=events)
            if conflict is None and events and events[-1].mod_revision > revision:
                revision += 1
            answers.append((future, conflict or revision))
            if perf_counter() > turn:
                await asyncio.sleep(0)
                turn = perf_counter() + _LONGEST_TURN
        if compact_revision != self.compact_revision:
            self._cursor.execute(_SET_COMPACTED, (compact_revision,))
            self._purging = True
        for _ in transactions.flush():
            if perf_counter() > turn:
                await asyncio.sleep(0)
                turn = perf_counter() + _LONGEST_TURN
        if events or self._purging or self._copy_rest:
            if self._follower is not None and events:
                self._follower.committing(revision)
            await self._finish(compact_revision)
            transactions.committed()
            self._written(_COMMIT_OVERHEAD + _WRITE_OVERHEAD * len(events) + sum([len(value) for _, value, _, _, _ in events if value]))
        else:
            self._connection.execute("ROLLBACK")
        return answers, events, State(revision, compact_revision)

    async def _begin(self) -> None:
        for _ in range(_BUSY_TRIES):
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                await asyncio.sleep(_BUSY_RETRY)  # another program reads the file
            else:
                return
        raise UnavailableError("the database is locked by another program")

    async def _finish(self, compact_revision: int) -> None:
        purging = self._purging
        copy_rest, self._copy_rest = self._copy_rest, False
        cursor = self._connection.cursor()

        def finish() -> bool:
            more = purging and purge(cursor, compact_revision)
            try:
                cursor.execute("COMMIT")
            except apsw.FullError:
                raise
            except apsw.Error as error:
                self._break(error)
                raise
            if copy_rest:
                try:
                    self._database.copy_log(self._connection)
                except CorruptDatabaseError as error:
                    self.give_up(error)
            return more

        self._purging = await self._worker.submit(finish)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            self._break(error)

    def _break(self, error: apsw.Error) -> None:
        """Refuse writes until the file is reopened."""
        self._unsynced = self._unsynced or is_failed_sync(error)
        self.broken = UnavailableError(f"a write to the disk failed, and no other is taken until the disk takes writes again: {error}")
        _log.error("storage_write_failed", error=str(error), synced=not self._unsynced)

    def pause(self, error: StorageError) -> None:
        """Refuse writes until the file is reopened, which fails as long as the cause exists."""
        if self.broken is None:
            self.broken = UnavailableError(f"no write is taken: {error}")
            _log.error("storage_write_failed", error=str(error), synced=True)
            self._queue.wake()

    def give_up(self, error: StorageError) -> None:
        """Refuse all writes because the log is damaged. Further writes would be lost after the damage at the next start."""
        if not self._for_good:
            self._for_good = True
            self.broken = UnavailableError(f"no write is taken: {error}")
            _log.error("storage_log_damaged", error=str(error))

    async def _look_for_room(self) -> None:
        """Create the reserve again if the disk has space. Otherwise free space inside the database by removing history."""
        try:
            if await self._shortage.ended(self._connection):
                return
        except CorruptDatabaseError as error:
            self.give_up(error)
            return
        if self.revision > self.compact_revision:
            future = self._loop.create_future()
            await self._commit([Request(future, (), (), self.revision)])
            future.exception()  # repeated at the next check
        self._shortage.watch()

    def _schedule_look(self) -> None:
        self._looks_for_room = True
        self._queue.wake()

    async def _reopen(self) -> None:
        """Reopen the file, and continue with its content."""
        database, connection, unsynced = self._database, self._connection, self._unsynced
        try:
            self._connection, state = await self._worker.submit(lambda: reopen(database, connection, unsynced=unsynced))
            events: list[Event] = []
            read = self.revision
            while read < state.revision:
                changes = self._read_changes(read, state.revision)
                events += changes.events
                read = changes.revision
        except (apsw.Error, StorageError, OSError) as error:
            _log.warning("storage_not_reopened", error=str(error), retry_seconds=_RETRY)
            timer = self._loop.call_later(_RETRY, self._queue.wake)
            await self._queue.wait()
            timer.cancel()
            return
        self._connection.set_busy_timeout(0)
        self._cursor = self._connection.cursor()
        self._transactions = Transactions(self._connection, self._hot, self._range_cache, self._recent)
        self._hot.clear()
        self._range_cache.committed()
        self._range_cache.clear()
        self.revision, self.compact_revision = state
        self._range_cache.compacted(state.compact_revision)
        if events:
            self._tell(events, state.revision)
        self.broken = None
        self._unsynced = False
        _log.warning("storage_reopened", revision=state.revision)
