"""Reads, on separate connections that see only committed data and never wait for the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import Any, Final, Protocol

import apsw
import orjson
import structlog

from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    CompactedError,
    DamagedError,
    Event,
    FutureRevisionError,
    KeyValue,
    RangeResult,
)
from kcp_py.storage.feed import Changes
from kcp_py.storage.sqlite.counting import count_keys
from kcp_py.storage.sqlite.errors import is_damage, translated
from kcp_py.storage.sqlite.pages import BOUNDED_ROWS, ITEM, LONGEST_TURN, NOTHING, boundary, items_of, key_value, undo
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.salvage import Limit, salvage
from kcp_py.storage.sqlite.schema import ORDINAL_BITS, key_bounds, last_seq
from kcp_py.storage.sqlite.state import State, read_state

_LARGEST_SLICE: Final = 4 << 20
"""Bytes of values after which a slice of changes ends."""
_MOST_IDLE: Final = 2
"""Connections kept for the next range."""

_GET: Final = ITEM + "WHERE c.key = ?"
_EACH: Final = f"""
    SELECT c.key, v.value, c.seq >> {ORDINAL_BITS}, c.create_revision
    FROM json_each(?) j CROSS JOIN current c ON c.key = j.value CROSS JOIN value v ON v.seq = c.seq
"""  # noqa: S608 - made of constants
_CHANGES: Final = """
    SELECT h.seq, h.key, h.previous, h.create_revision, n.value, p.value
    FROM history h LEFT JOIN value n ON n.seq = h.seq LEFT JOIN value p ON p.seq = h.previous
    WHERE h.seq > ? AND h.seq <= ? AND h.key >= ? AND h.key < ? ORDER BY h.seq
"""

_log: Final = structlog.get_logger("kcp_py.storage")
_SALVAGES: Final = 20
"""How often a damaged range is read again because of concurrent writes."""
_MOST_TOLD: Final = 1_000
"""Damaged keys that are logged."""


class Connects(Protocol):
    """A database file."""

    def connect(self) -> apsw.Connection:
        """A new connection that does not write."""
        ...


class Reader:
    """All reads of one database."""

    def __init__(self, database: Connects, recent: RecentWrites) -> None:
        self._database = database
        self._recent = recent
        self._points = database.connect()
        self._point = self._points.cursor()
        self._idle: list[apsw.Connection] = []
        self._running = 0
        self.seen = 0
        """The latest revision that was read. A commit is readable before the event loop learns that it ended."""
        self.damaged: set[str] = set()
        """The damaged keys that were found; the empty text for damage without a key."""

    async def close(self) -> None:
        """Wait for the ranges that are running, then close the connections."""
        while self._running:  # noqa: ASYNC110 - they end within a few turns, and an event would cost every range
            await asyncio.sleep(0)
        self._points.close()
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def get(self, key: str) -> KeyValue | None:
        """`Storage.get`, without waiting: about 10 us."""
        try:
            # All rows are fetched, because an unfinished statement keeps its snapshot open.
            rows: list[Any] = self._point.execute(_GET, (key,)).fetchall()
        except apsw.Error as error:
            if is_damage(error):
                raise self._told(DamagedError([key])) from error
            raise translated(error) from error
        except UnicodeEncodeError:
            return None  # such a key cannot exist
        if not rows:
            return None
        item = key_value(rows[0])
        self.seen = max(self.seen, item.mod_revision)
        return item

    async def get_each(self, keys: Sequence[str]) -> list[KeyValue | None]:
        """`ReadsManyKeys.get_each`, from one snapshot: a third of the time that `get` takes for each."""
        connection = self._connected()
        self._running += 1
        found: dict[str, KeyValue] = {}
        rows = connection.cursor()
        try:
            rows.execute(_EACH, (orjson.dumps(keys).decode(),))
            turn = perf_counter() + LONGEST_TURN
            while chunk := list(islice(rows, BOUNDED_ROWS)):
                for row in chunk:
                    item = key_value(row)
                    found[item.key] = item
                    self.seen = max(self.seen, item.mod_revision)
                if perf_counter() > turn:
                    await asyncio.sleep(0)
                    turn = perf_counter() + LONGEST_TURN
        except apsw.Error as error:
            if not is_damage(error):
                raise translated(error) from error
            # One by one, the error names the key.
            return [self.get(key) for key in keys]
        finally:
            # An unfinished statement keeps its snapshot open.
            rows.close(force=True)
            self._running -= 1
            self._put_back(connection)
        return [found.get(key) for key in keys]

    async def get_at(self, key: str, revision: int, *, keys_only: bool) -> KeyValue | None:
        """`ReadsOldKeys.get_at`. A key that was not written lately costs as much as `get`; for others all later writes are examined."""
        if not self._recent.may_be_newer(key, revision):
            # A write of the revision itself may not be committed yet. Therefore the state is read first.
            state = self.state()
            if state.compact_revision <= revision <= state.revision:
                try:
                    return self.get(key)
                except DamagedError:
                    if not keys_only:
                        raise
        return await self._range_at(key, revision, keys_only=keys_only)

    async def _range_at(self, key: str, revision: int, *, keys_only: bool) -> KeyValue | None:
        found = await self.range(key, start="", limit=Limit(1, LARGEST_PAGE_BYTES), revision=revision, count=False, keys_only=keys_only)
        return found.items[0] if found.items and found.items[0].key == key else None

    def state(self) -> State:
        """The newest committed state."""
        try:
            return read_state(self._points)
        except apsw.Error as error:
            raise translated(error) from error

    async def range(self, prefix: str, *, start: str, limit: Limit, revision: int, count: bool, keys_only: bool) -> RangeResult:
        """`Storage.range`, from one snapshot."""
        connection = self._connected()
        self._running += 1
        try:
            connection.execute("BEGIN")
            state = self._state_for(connection, revision)
            lower, upper = key_bounds(prefix, start)
            undone = NOTHING
            if revision and revision < state.revision and self._may_differ(prefix, revision, state):
                undone = await undo(connection, revision, state.revision, lower, upper)
            try:
                items, more = await items_of(connection, lower, upper, limit, undone, keys_only=keys_only)
            except apsw.Error as error:
                if not is_damage(error):
                    raise
                raise self._told(
                    await self._salvaged(connection, (lower, upper), limit=limit, revision=revision, keys_only=keys_only)
                ) from error
            total = -1
            if count:
                total = len(items)
                if more:
                    last = items[-1].key
                    total += await count_keys(connection, last, upper, behind=True) + undone.surplus_after(last)
            return RangeResult(items, revision or state.revision, more, total)
        except apsw.Error as error:
            raise translated(error) from error
        finally:
            self._running -= 1
            self._put_back(connection)

    async def count_keys(self, prefix: str, *, start: str, most: int, revision: int) -> int:
        """`CountsKeys.count_keys`, from one snapshot: a tenth of the time that reading the keys takes."""
        connection = self._connected()
        self._running += 1
        try:
            connection.execute("BEGIN")
            state = self._state_for(connection, revision)
            lower, upper = key_bounds(prefix, start)
            if revision and revision < state.revision and self._may_differ(prefix, revision, state):
                undone = await undo(connection, revision, state.revision, lower, upper)
                items, more = await items_of(connection, lower, upper, Limit(most, LARGEST_PAGE_BYTES), undone, keys_only=True)
                return len(items) + more
            return await count_keys(connection, lower, upper, most=most + 1)
        except apsw.Error as error:
            if is_damage(error):
                raise DamagedError from error
            raise translated(error) from error
        finally:
            self._running -= 1
            self._put_back(connection)

    def _connected(self) -> apsw.Connection:
        try:
            return self._idle.pop() if self._idle else self._database.connect()
        except apsw.Error as error:
            raise translated(error) from error

    def _state_for(self, connection: apsw.Connection, revision: int) -> State:
        """The state of a snapshot, in which a revision (0: any) must be readable."""
        state = read_state(connection)
        self.seen = max(self.seen, state.revision)
        if revision > state.revision:
            raise FutureRevisionError(revision, state.revision)
        if revision and revision < state.compact_revision:
            raise CompactedError(revision, state.compact_revision)
        return state

    def _may_differ(self, prefix: str, revision: int, state: State) -> bool:
        """Whether keys below a prefix may have been written after a revision, which the snapshot has passed."""
        return not prefix.endswith("/") or self._recent.may_be_newer(prefix, revision) or self._recent.misses(state.revision)

    def changes(self, prefix: str, after: int, until: int) -> Changes:
        """A slice of history for `feed.ReadChanges`, with a bounded amount of work."""
        connection = self._points
        lower, upper = key_bounds(prefix)
        try:
            connection.execute("BEGIN")
            try:
                compact_revision = read_state(connection).compact_revision
                if after < compact_revision:
                    raise CompactedError(after + 1, compact_revision)
                bound = boundary(connection, last_seq(after), last_seq(until))
                return _slice(connection.execute(_CHANGES, (last_seq(after), bound, lower, upper)), bound >> ORDINAL_BITS)
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except apsw.Error as error:
            if is_damage(error):
                self._told(DamagedError())
                raise CompactedError(after + 1, until) from error  # a client that lists again receives the readable objects
            raise translated(error) from error

    async def _salvaged(
        self, connection: apsw.Connection, bounds: tuple[str, str | bytes], *, limit: Limit, revision: int, keys_only: bool
    ) -> DamagedError:
        for _ in range(_SALVAGES):
            # An error ends the snapshot, so the parts belong together only without a write in the meantime.
            state = read_state(connection)
            undone = NOTHING
            if revision and revision < state.revision:
                undone = await undo(connection, revision, state.revision, *bounds)
            at = revision or state.revision
            error = salvage(connection, bounds, limit=limit, revision=at, undone=undone.then, keys_only=keys_only)
            if read_state(connection) == state:
                return error
        return DamagedError()

    def _told(self, error: DamagedError) -> DamagedError:
        """Log an error, once for each key."""
        for key in error.keys or ("",):
            if key not in self.damaged and len(self.damaged) < _MOST_TOLD:
                self.damaged.add(key)
                _log.error("storage_damaged", key=key or None, error="a checksum is wrong; restore a backup, see kcp-py doctor")
        return error

    def _put_back(self, connection: apsw.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            connection.close()
            return
        if len(self._idle) >= _MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)


def _slice(rows: apsw.Cursor, covered: int) -> Changes:
    events: list[Event] = []
    size = 0
    for seq, key, previous, create_revision, value, previous_value in rows:
        revision = seq >> ORDINAL_BITS
        if size > _LARGEST_SLICE and events[-1].mod_revision != revision:
            covered = events[-1].mod_revision
            rows.close()
            break
        before = KeyValue(key, previous_value, previous >> ORDINAL_BITS, create_revision) if previous else None
        events.append(Event(key, value, revision, create_revision, before))
        size += len(value or b"") + len(previous_value or b"")
    return Changes(events, covered)
