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
from typing import Any, Final, NamedTuple

import apsw
import structlog

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    DamagedError,
    Event,
    FutureRevisionError,
    KeyValue,
    NoSpaceError,
    Operation,
    Put,
    StorageError,
    UnavailableError,
)
from kcp_py.storage.feed import Changes
from kcp_py.storage.spans import Spans
from kcp_py.storage.sqlite.checksums import PAGE_SIZE
from kcp_py.storage.sqlite.database import Database, copy_log, truncate_log
from kcp_py.storage.sqlite.errors import translated
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.room import Room
from kcp_py.storage.sqlite.schema import ORDINAL_BITS, last_seq
from kcp_py.storage.sqlite.state import State, read_state
from kcp_py.storage.sqlite.worker import Worker

_log: Final = structlog.get_logger("kcp_py.storage")

_LARGEST_GROUP: Final = 512
_LONGEST_GATHERING: Final = 0.01
"""Seconds for which a group may grow."""
_QUIET_TURNS: Final = 2
"""Turns of the loop without a further write that close a group: a request that came in is a write one turn later."""
_LONGEST_TURN: Final = 0.002
"""Seconds for which a group's statements hold the event loop."""
_PURGED: Final = 500
"""Writes that compaction forgets with one commit."""
_COMMIT_OVERHEAD: Final = 12_000
"""Bytes of the log that a commit takes for the pages at the tables' ends (measured) ..."""
_WRITE_OVERHEAD: Final = 5_000
"""... and a write for the page of its key, beside the value."""
_RETRY: Final = 1.0
"""Seconds between two attempts to open the file anew, or to make the reserve again."""
_LITTLE_ROOM: Final = 4 << 20
"""A disk with more bytes than this is not full; a commit of many large values may not fit all the same."""
_BUSY_RETRY: Final = 0.01
_BUSY_TRIES: Final = 500

_FIND: Final = "SELECT seq, create_revision FROM current WHERE key = ?"
_VALUE: Final = "SELECT value FROM value WHERE seq = ?"
_INSERT_CURRENT: Final = "INSERT INTO current VALUES (?, ?, ?)"
_CREATE_CURRENT: Final = "INSERT INTO current VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE_CURRENT: Final = "UPDATE current SET seq = ? WHERE key = ?"
_DELETE_CURRENT: Final = "DELETE FROM current WHERE key = ?"
_INSERT_VALUE: Final = "INSERT INTO value VALUES (?, ?)"
_INSERT_HISTORY: Final = "INSERT INTO history VALUES (?, ?, ?, ?, ?)"
_SET_COMPACTED: Final = "UPDATE meta SET number = ? WHERE name = 'compact_revision'"
_PURGE_BOUNDARY: Final = "SELECT seq FROM history WHERE seq <= ? ORDER BY seq LIMIT 1 OFFSET ?"
_PURGE_VALUES: Final = "DELETE FROM value WHERE seq IN (SELECT previous FROM history WHERE seq <= ?)"
_PURGE_HISTORY: Final = "DELETE FROM history WHERE seq <= ?"
_ANY_TO_PURGE: Final = "SELECT 1 FROM history WHERE seq <= ? LIMIT 1"


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
        self._for_good = False
        self._read_changes = read_changes
        self._database = database
        self._connection = connection
        self._cursor = connection.cursor()
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
        self._purging = bool(connection.execute(_ANY_TO_PURGE, (last_seq(state.compact_revision),)).fetchall())
        connection.set_busy_timeout(0)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if room.full:
            _log.error("storage_full", free_bytes=room.free())
            self._watch_room()
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
        if self._timer is not None:
            self._timer.cancel()
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
            if isinstance(problem, DamagedError) and len(group) == 1:
                problem = DamagedError([operation.key for operation in group[0].operations])
            if isinstance(problem, NoSpaceError) and await self._give_up_reserve():
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
            if self.room.full and not self._fits(request):
                answers.append((future, NoSpaceError("the disk is full: nothing but deletions and small changes is taken")))
                continue
            conflict = self._transact(request, revision + 1, events)
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
        purge = last_seq(compact_revision) if self._purging else -1
        copy_rest, self._copy_rest = self._copy_rest, False
        cursor = self._connection.cursor()

        def finish() -> bool:
            more = False
            if purge >= 0:
                bound = purge
                rows: Any = cursor.execute(_PURGE_BOUNDARY, (purge, _PURGED)).fetchall()
                for (seq,) in rows:
                    bound, more = seq, True
                cursor.execute(_PURGE_VALUES, (bound,))
                cursor.execute(_PURGE_HISTORY, (bound,))
            try:
                cursor.execute("COMMIT")
            except apsw.FullError:
                raise
            except apsw.Error as error:
                self._break(error)
                raise
            if copy_rest:
                copy_log(self._connection)
            return more

        self._purging = await self._worker.submit(finish)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            self._break(error)

    def _break(self, error: apsw.Error) -> None:
        """Take no write before the file has been opened anew, or never again.

        Where a sync failed, what the disk has of the log cannot be told from what the system has in memory (it drops pages that it could
        not write), and no new sync would write it: what was committed behind it would be lost with it when the power fails.
        """
        self._for_good = getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)
        what = "until the server is started again; check the disk first" if self._for_good else "until the database has been opened anew"
        self.broken = UnavailableError(f"a write to the disk failed, and no other is taken {what}: {error}")
        _log.error("storage_write_failed", error=str(error), recovers=not self._for_good)

    async def _reopen(self) -> None:
        """Open the file anew, and go on from what is in it: the commit that failed may be there, whole."""

        def reopen() -> tuple[apsw.Connection, State]:
            self._connection.close()
            connection = self._database.connect(writer=True)
            return connection, read_state(connection)

        try:
            self._connection, state = await self._worker.submit(reopen)
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
        self._hot.committed()
        self._spans.committed()
        self._spans.clear()
        self.revision, self.compact_revision = state
        self._spans.compacted(state.compact_revision)
        if events:
            self._publish(events, state.revision)
        self.broken = None
        _log.warning("storage_reopened", revision=state.revision)

    def _fits(self, request: _Request) -> bool:
        """Whether a transaction is taken although the disk is full."""
        puts = [operation for operation in request.operations if isinstance(operation, Put)]
        existing = {compare.key for compare in request.compares if compare.mod_revision}
        ((free,),) = self._connection.execute("PRAGMA freelist_count")
        return self.room.leaves(
            sum(len(put.value) for put in puts),
            deletes=len(puts) < len(request.operations),
            updates=all(put.key in existing for put in puts),
            reusable=int(free) * PAGE_SIZE,
        )

    async def _give_up_reserve(self) -> bool:
        """Give the reserve up, if that is what is missing; returns whether the disk was full.

        A limit of the file itself is no matter of the disk.
        """
        if not self.room.kept or self.room.full or await self._worker.submit(self.room.free) > _LITTLE_ROOM:
            return False
        self.room.full = True
        _log.error("storage_full", free_bytes=self.room.free())

        def give_up() -> None:
            self.room.give_up()
            truncate_log(self._connection)

        await self._worker.submit(give_up)
        self._watch_room()
        return True

    def _watch_room(self) -> None:
        def look() -> None:
            self._looks_for_room = True
            self._wake()

        if not self._closing:
            self._timer = self._loop.call_later(_RETRY, look)

    async def _look_for_room(self) -> None:
        """Make the reserve again where there is room for it; else make room inside, by forgetting history."""

        def look() -> bool:
            truncate_log(self._connection)
            return self.room.make()

        if await self._worker.submit(look):
            self.room.full = False
            _log.warning("storage_room_again", free_bytes=self.room.free())
            return
        if self.revision > self.compact_revision:
            future = self._loop.create_future()
            await self._commit([_Request(future, (), (), self.revision)])
            future.exception()  # tried again with the next look
        self._watch_room()

    def _check_compact(self, wanted: int, revision: int, compact_revision: int) -> StorageError | None:
        if wanted > revision:
            return FutureRevisionError(wanted, revision)
        if wanted <= compact_revision:
            return CompactedError(wanted, compact_revision)
        return None

    def _transact(self, request: _Request, revision: int, events: list[Event]) -> ConflictError | None:
        """Carry out one caller's transaction at `revision`; its events are appended."""
        execute: Callable[..., Any] = self._cursor.execute  # what the columns hold is known here
        operations = request.operations
        # A key that must not exist and is written first is not looked up: its insertion tells, with nothing changed before it.
        first = operations[0].key if operations and isinstance(operations[0], Put) else ""
        created_key = ""
        found: dict[str, tuple[int, int] | None] = {}
        for key, mod_revision, create_revision in request.compares:
            state = self._hot.state(key)
            if state is None:
                if key == first and mod_revision == 0 and create_revision is None and not created_key:
                    created_key = key
                    continue
                rows = execute(_FIND, (key,)).fetchall()
                if rows:
                    state = rows[0]
                    self._hot.remember_state(key, rows[0])
            found[key] = state
            seq, created = state or (0, 0)
            if (mod_revision is not None and mod_revision != seq >> ORDINAL_BITS) or (
                create_revision is not None and create_revision != created
            ):
                return self._existing(created_key) or ConflictError(key, self._key_value(key, seq, created) if seq else None)
        next_seq = revision << ORDINAL_BITS
        for operation in operations:
            key = operation.key
            creates = key == created_key  # a Put, or it would not be one
            if creates:
                execute(_CREATE_CURRENT, (key, next_seq, revision))
                if not self._connection.changes():
                    return self._existing(key)
            self._hot.writing(key)
            self._spans.writing(key, revision)
            if creates and isinstance(operation, Put):
                execute(_INSERT_HISTORY, (next_seq, key, 0, revision, 0))
                execute(_INSERT_VALUE, (next_seq, operation.value))
                events.append(Event(key, operation.value, revision, revision, None))
                next_seq += 1
                continue
            if key in found:
                state = found[key]
            else:
                rows = execute(_FIND, (key,)).fetchall()
                state = rows[0] if rows else None
            if isinstance(operation, Put):
                value = operation.value
                if state is None:
                    execute(_INSERT_CURRENT, (key, next_seq, revision))
                    execute(_INSERT_HISTORY, (next_seq, key, 0, revision, 0))
                    events.append(Event(key, value, revision, revision, None))
                else:
                    seq, created = state
                    execute(_UPDATE_CURRENT, (next_seq, key))
                    execute(_INSERT_HISTORY, (next_seq, key, seq, created, 0))
                    events.append(Event(key, value, revision, created, self._key_value(key, seq, created)))
                execute(_INSERT_VALUE, (next_seq, value))
            elif state is not None:
                seq, created = state
                execute(_DELETE_CURRENT, (key,))
                execute(_INSERT_HISTORY, (next_seq, key, seq, created, 1))
                events.append(Event(key, None, revision, created, self._key_value(key, seq, created)))
            else:
                continue
            next_seq += 1
        return None

    def _existing(self, key: str) -> ConflictError | None:
        """The conflict of a key that must not exist; None where it does not."""
        rows: Any = self._cursor.execute(_FIND, (key,)).fetchall() if key else ()
        for seq, created in rows:
            return ConflictError(key, self._key_value(key, seq, created))
        return None

    def _key_value(self, key: str, seq: int, create_revision: int) -> KeyValue:
        rows: Any = self._cursor.execute(_VALUE, (seq,)).fetchall()
        ((value,),) = rows
        return KeyValue(key, value, seq >> ORDINAL_BITS, create_revision)
