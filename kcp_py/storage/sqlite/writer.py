"""Writes: callers queue, and one task commits all that is queued as one SQLite transaction.

Each caller's transaction has its own compares and its own revision inside of it. The statements run on the event loop (they only touch
memory); the commit, which waits for the disk, runs in the worker thread while the next group queues up. Nobody learns of a write before it
is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, NamedTuple

import apsw
import structlog

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    DamagedError,
    Event,
    FutureRevisionError,
    NoSpaceError,
    Operation,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
)
from kcp_py.storage.feed import Changes
from kcp_py.storage.spans import Spans
from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, translated
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.purging import any_to_purge, purge
from kcp_py.storage.sqlite.recovery import is_failed_sync, reopen
from kcp_py.storage.sqlite.room import Room
from kcp_py.storage.sqlite.shortage import Shortage
from kcp_py.storage.sqlite.state import State, read_state
from kcp_py.storage.sqlite.transaction import Transactions
from kcp_py.storage.sqlite.worker import Worker

_log: Final = structlog.get_logger("kcp_py.storage")

_LARGEST_GROUP: Final = 512
_LONGEST_GATHERING: Final = 0.01
"""Seconds for which a group may grow."""
_QUIET_TURNS: Final = 2
"""Turns of the loop without a further write that close a group: a request that came in is a write one turn later."""
_LONGEST_TURN: Final = 0.002
"""Seconds for which a group's statements hold the event loop."""
_COMMIT_OVERHEAD: Final = 12_000
"""Bytes of the log that a commit takes for the pages at the tables' ends (measured) ..."""
_WRITE_OVERHEAD: Final = 5_000
"""... and a write for the page of its key, beside the value."""
_RETRY: Final = 1.0
"""Seconds between two attempts to open the file anew."""
_BUSY_RETRY: Final = 0.01
_BUSY_TRIES: Final = 500

_SET_COMPACTED: Final = "UPDATE meta SET number = ? WHERE name = 'compact_revision'"


class _Request(NamedTuple):
    future: asyncio.Future[int]
    compares: Sequence[Compare]
    operations: Sequence[Operation]
    compact: int
    """The revision to compact at, instead of a transaction; 0 for none."""


class Writer:
    """The only one who changes the database."""

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
        spans: Spans,
    ) -> None:
        """Take the writing connection over.

        Args:
            database: from which the connection was made, and is made anew after a commit that failed.
            connection: used by nobody else.
            worker: where commits run.
            room: the reserve, as it was found when the database was opened.
            read_changes: reads all changes (after a revision, until a revision).
            publish: is told the events and the revision of each commit, in order.
            written: is told about how many bytes a commit added to the log file.
            hot: forgets what is written.
            spans: the same for ranges.
        """
        state = read_state(connection)
        self.revision = state.revision
        """Of the last commit."""
        self.compact_revision = state.compact_revision
        self.broken: StorageError | None = None
        """Why no write is taken: a commit failed, and the file was not opened anew yet."""
        self.room = room
        self._unsynced = False
        self._for_good = False
        self._read_changes = read_changes
        self._database = database
        self._connection = connection
        self._cursor = connection.cursor()
        self._transactions = Transactions(connection, hot, spans)
        self._worker = worker
        self._publish = publish
        self._written = written
        self._hot = hot
        self._spans = spans
        self._queue: deque[_Request] = deque()
        self._waiter: asyncio.Future[None] | None = None
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
        """The writing connection; another one after a commit failed."""
        return self._connection

    def submit(self, compares: Sequence[Compare], operations: Sequence[Operation], *, compact: int = 0) -> asyncio.Future[int]:
        """Queue a transaction (or a compaction); the future carries the revision after it or what went wrong."""
        if self._closing:
            raise UnavailableError("the store is closing")
        if self.broken is not None:
            raise UnavailableError(str(self.broken))
        future = self._loop.create_future()
        self._queue.append(_Request(future, compares, operations, compact))
        self._wake()
        return future

    def copy_rest(self) -> None:
        """Checkpoint once, behind the next commit; makes one where there is nothing to write."""
        self._copy_rest = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def close(self) -> None:
        """Carry out what is queued, then end."""
        self._closing = True
        self._shortage.close()
        self._wake()
        await self._task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self.broken is not None and not self._for_good and not self._closing:
                await self._reopen()
            elif self._queue:
                await self._gather()
                await self._commit([self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_GROUP))])
                self._hot.committed()
                self._spans.committed()
            elif self._closing:
                return
            elif self._looks_for_room:
                self._looks_for_room = False
                await self._look_for_room()
            elif self._copy_rest or self._purging:
                await self._commit([])
            else:
                self._waiter = loop.create_future()
                await self._waiter

    async def _gather(self) -> None:
        """Let the group grow for as long as every few turns of the loop bring another write.

        A busy loop is what there is to wait for then, not the disk: whoever was just answered is about to write again, and a commit for two
        is hardly dearer than for one. An idle loop turns in a few microseconds.
        """
        seen = 0
        until = perf_counter() + _LONGEST_GATHERING
        while seen < len(self._queue) < _LARGEST_GROUP and perf_counter() < until:
            seen = len(self._queue)
            for _ in range(_QUIET_TURNS):
                await asyncio.sleep(0)

    async def _commit(self, group: list[_Request]) -> None:
        """Carry out a group; every future of it is done afterwards."""
        if self._refuse(group):
            return
        try:
            answers, events, state = await self._carry_out(group)
        except Exception as error:  # noqa: BLE001 - carried to the callers: the task that serves all of them must not end
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
                # Perhaps one large value did not fit: the others must not suffer for it.
                for request in group:
                    await self._commit([request])
                return
            self._purging = self._copy_rest = False  # tried again with the next compaction and the next checkpoint
            for request in group:
                if not request.future.done():
                    request.future.set_exception(problem)
            return
        self.revision, self.compact_revision = state
        self._spans.compacted(state.compact_revision)
        if events:
            self._publish(events, state.revision)
        for future, answer in answers:
            if not future.done():
                if isinstance(answer, int):
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    def _refuse(self, group: list[_Request]) -> bool:
        """Answer all, if no write is taken."""
        if self.broken is None:
            return False
        for request in group:
            if not request.future.done():
                request.future.set_exception(UnavailableError(str(self.broken)))
        return True

    async def _carry_out(self, group: list[_Request]) -> tuple[list[tuple[asyncio.Future[int], int | StorageError]], list[Event], State]:
        await self._begin()
        revision, compact_revision = self.revision, self.compact_revision
        answers: list[tuple[asyncio.Future[int], int | StorageError]] = []
        events: list[Event] = []
        turn = perf_counter() + _LONGEST_TURN
        for request in group:
            future = request.future
            if future.done():
                continue  # the caller went away before the write began
            if request.compact:
                answer = self._check_compact(request.compact, revision, compact_revision)
                if answer is None:
                    compact_revision = request.compact
                answers.append((future, answer or revision))
                continue
            if self.room.full and not self._shortage.takes(self._connection, request.compares, request.operations):
                answers.append((future, NoSpaceError("the disk is full: nothing but deletions and small changes is taken")))
                continue
            conflict = self._transactions.carry_out(request.compares, request.operations, revision + 1, events=events)
            if conflict is None and events and events[-1].mod_revision > revision:
                revision += 1
            answers.append((future, conflict or revision))
            if perf_counter() > turn:
                await asyncio.sleep(0)
                turn = perf_counter() + _LONGEST_TURN
        if compact_revision != self.compact_revision:
            self._cursor.execute(_SET_COMPACTED, (compact_revision,))
            self._purging = True
        if events or self._purging or self._copy_rest:
            await self._finish(compact_revision)
            self._written(_COMMIT_OVERHEAD + sum(_WRITE_OVERHEAD + len(event.value or b"") for event in events))
        else:
            self._connection.execute("ROLLBACK")
        return answers, events, State(revision, compact_revision)

    async def _begin(self) -> None:
        for _ in range(_BUSY_TRIES):
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                await asyncio.sleep(_BUSY_RETRY)  # a foreign program looks into the file
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
        """Take no write before the file has been opened anew."""
        self._unsynced = self._unsynced or is_failed_sync(error)
        self.broken = UnavailableError(f"a write to the disk failed, and no other is taken until the disk takes writes again: {error}")
        _log.error("storage_write_failed", error=str(error), synced=not self._unsynced)

    def pause(self, error: StorageError) -> None:
        """Take no write before the file has been opened anew, which fails as long as the reason is there."""
        if self.broken is None:
            self.broken = UnavailableError(f"no write is taken: {error}")
            _log.error("storage_write_failed", error=str(error), synced=True)
            self._wake()

    def give_up(self, error: StorageError) -> None:
        """Take no write any more: the log is damaged. Each further one would be lost behind the damage at the next start."""
        if not self._for_good:
            self._for_good = True
            self.broken = UnavailableError(f"no write is taken: {error}")
            _log.error("storage_log_damaged", error=str(error))

    async def _look_for_room(self) -> None:
        """Make the reserve again where there is room for it; else make room inside, by forgetting history."""
        try:
            if await self._shortage.ended(self._connection):
                return
        except CorruptDatabaseError as error:
            self.give_up(error)
            return
        if self.revision > self.compact_revision:
            future = self._loop.create_future()
            await self._commit([_Request(future, (), (), self.revision)])
            future.exception()  # tried again with the next look
        self._shortage.watch()

    def _schedule_look(self) -> None:
        self._looks_for_room = True
        self._wake()

    async def _reopen(self) -> None:
        """Open the file anew, and go on from what is in it."""
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
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(_RETRY, self._wake)
            await self._waiter
            timer.cancel()
            return
        self._connection.set_busy_timeout(0)
        self._cursor = self._connection.cursor()
        self._transactions = Transactions(self._connection, self._hot, self._spans)
        self._hot.committed()
        self._spans.committed()
        self._spans.clear()
        self.revision, self.compact_revision = state
        self._spans.compacted(state.compact_revision)
        if events:
            self._publish(events, state.revision)
        self.broken = None
        self._unsynced = False
        _log.warning("storage_reopened", revision=state.revision)

    def _check_compact(self, wanted: int, revision: int, compact_revision: int) -> StorageError | None:
        if wanted > revision:
            return FutureRevisionError(wanted, revision)
        if wanted <= compact_revision:
            return CompactedError(wanted, compact_revision)
        return None
