"""Reads, on separate connections that see only committed data and never wait for the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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
    fitting,
)
from kcp_py.storage.feed import Changes
from kcp_py.storage.sqlite.errors import is_damage, translated
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.salvage import Limit, salvage
from kcp_py.storage.sqlite.schema import ORDINAL_BITS, ORDINAL_MASK, key_bounds, last_seq
from kcp_py.storage.sqlite.state import State, fetch, read_state

_ROWS: Final = 64
"""Rows read between two checks of the clock."""
_BOUNDED_ROWS: Final = 16
"""Rows read between two checks of the clock for a page that is bounded in bytes, and of keys that are not next to each other. Large values
may be read without need, and each row may take a tenth of a millisecond on the disk."""
_LONGEST_TURN: Final = 0.002
"""Seconds for which a range blocks the event loop."""
_COUNTED: Final = 10_000
"""Keys counted before the count yields."""
_SCANNED: Final = 2_000
"""Writes examined before the read yields."""
_LARGEST_SLICE: Final = 4 << 20
"""Bytes of values after which a slice of changes ends."""
_MOST_IDLE: Final = 2
"""Connections kept for the next range."""

_ITEM: Final = f"""
    SELECT c.key, v.value, c.seq >> {ORDINAL_BITS}, c.create_revision FROM current c CROSS JOIN value v ON v.seq = c.seq
"""  # noqa: S608 - made of constants
_GET: Final = _ITEM + "WHERE c.key = ?"
_EACH: Final = f"""
    SELECT c.key, v.value, c.seq >> {ORDINAL_BITS}, c.create_revision
    FROM json_each(?) j CROSS JOIN current c ON c.key = j.value CROSS JOIN value v ON v.seq = c.seq
"""  # noqa: S608 - made of constants
_RANGE: Final = _ITEM + "WHERE c.key >= ? AND c.key < ? ORDER BY c.key LIMIT ?"
_KEYS: Final = f"""
    SELECT key, x'', seq >> {ORDINAL_BITS}, create_revision FROM current WHERE key >= ? AND key < ? ORDER BY key LIMIT ?
"""  # noqa: S608 - made of constants
_COUNT: Final = "SELECT count(*), max(key) FROM (SELECT key FROM current WHERE key > ? AND key < ? ORDER BY key LIMIT ?)"
_COUNT_FROM: Final = "SELECT count(*), max(key) FROM (SELECT key FROM current WHERE key >= ? AND key < ? ORDER BY key LIMIT ?)"
_BOUNDARY: Final = "SELECT seq FROM history WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT 1 OFFSET ?"
_WRITES: Final = """
    SELECT key, previous, create_revision, deleted FROM history
    WHERE seq > ? AND seq <= ? AND key >= ? AND key < ? ORDER BY seq
"""
_VALUE: Final = "SELECT value FROM value WHERE seq = ?"
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

_key_value: Final[Callable[[Any], KeyValue]] = partial(tuple.__new__, KeyValue)


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
        item = _key_value(rows[0])
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
            turn = perf_counter() + _LONGEST_TURN
            while chunk := list(islice(rows, _BOUNDED_ROWS)):
                for row in chunk:
                    item = _key_value(row)
                    found[item.key] = item
                    self.seen = max(self.seen, item.mod_revision)
                if perf_counter() > turn:
                    await asyncio.sleep(0)
                    turn = perf_counter() + _LONGEST_TURN
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
            undone = _NOTHING
            if revision and revision < state.revision and self._may_differ(prefix, revision, state):
                undone = await _undo(connection, revision, state.revision, lower, upper)
            try:
                items, more = await _items(connection, lower, upper, limit, undone, keys_only=keys_only)
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
                    total += await _count(connection, last, upper) + undone.surplus_after(last)
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
                undone = await _undo(connection, revision, state.revision, lower, upper)
                items, more = await _items(connection, lower, upper, Limit(most, LARGEST_PAGE_BYTES), undone, keys_only=True)
                return len(items) + more
            return await _count_up_to(connection, lower, upper, most + 1)
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
                bound = _boundary(connection, last_seq(after), last_seq(until))
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
            undone = _NOTHING
            if revision and revision < state.revision:
                undone = await _undo(connection, revision, state.revision, *bounds)
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


class _Undone:
    """The writes that a range at an old revision must undo: the keys written since, and their values then."""

    def __init__(self) -> None:
        self.then: dict[str, tuple[int, int]] = {}
        """key -> (seq of its value then, or 0 if it did not exist; create revision)."""
        self.now: dict[str, bool] = {}
        """key -> whether it exists now."""
        self.existing: list[str] = []
        """The keys of `then` that existed, in order."""
        self.merged = 0
        """The number of `existing` that were returned."""

    def surplus_after(self, last: str) -> int:
        """The difference between the numbers of keys after `last` then and now."""
        return sum(key > last for key in self.existing) - sum(exists and key > last for key, exists in self.now.items())


_NOTHING: Final = _Undone()


async def _undo(connection: apsw.Connection, revision: int, until: int, lower: str, upper: str | bytes) -> _Undone:
    undone = _Undone()
    after, end = last_seq(revision), last_seq(until)
    while after < end:
        bound = _boundary(connection, after, end)
        try:
            rows = fetch(connection, _WRITES, after, bound, lower, upper)
        except apsw.Error as error:
            if is_damage(error):
                raise CompactedError(revision, until) from error  # the old revision is lost, but the current one may be readable
            raise
        for key, previous, create_revision, deleted in rows:
            undone.then.setdefault(key, (previous, create_revision))
            undone.now[key] = not deleted
        after = bound
        await asyncio.sleep(0)
    undone.existing = sorted(key for key, (previous, _) in undone.then.items() if previous)
    return undone


_MOST_ROWS: Final = 2**31
"""The maximum limit of a page: SQLite accepts 64 bits, and one row after the page is read as well."""


async def _items(
    connection: apsw.Connection, lower: str, upper: str | bytes, limits: Limit, undone: _Undone, *, keys_only: bool
) -> tuple[list[KeyValue], bool]:
    """The items of a page, and whether more follow."""
    limit = min(limits.items, _MOST_ROWS)
    wanted = limit + 1 if limit > 0 else -1
    # A page at an old revision may skip as many current keys as were written since.
    rows = connection.execute(_KEYS if keys_only else _RANGE, (lower, upper, wanted + len(undone.then) if wanted > 0 else -1))
    items: list[KeyValue] = []
    counted = size = 0
    bounded = wanted > 0 and not keys_only
    together = 1 if bounded else _ROWS
    turn = perf_counter() + _LONGEST_TURN
    while True:
        chunk = list(islice(rows, together))
        ended = len(chunk) < together
        if undone.then:
            _merge(connection, items, chunk, undone, ended=ended, keys_only=keys_only)
        else:
            items.extend(map(_key_value, chunk))
        if bounded:
            size += sum([len(item.value) for item in items[counted:]])
            counted = len(items)
            # The number that is likely to fit, by the mean size of the previous rows.
            together = min(_BOUNDED_ROWS, max(1, (limits.bytes - size) * counted // (size or 1)))
        ended = ended or 0 < wanted <= len(items)
        if ended or size > limits.bytes:
            taken = len(items) if size <= limits.bytes else fitting(items, limits.bytes)
            taken = min(taken, limit) if limit > 0 else taken
            more = taken < len(items) or (not ended and (bool(undone.then) or next(rows, None) is not None))
            rows.close()
            return items[:taken], more
        if perf_counter() > turn:
            await asyncio.sleep(0)
            turn = perf_counter() + _LONGEST_TURN


def _merge(
    connection: apsw.Connection,
    items: list[KeyValue],
    chunk: Iterable[tuple[Any, ...]],
    undone: _Undone,
    *,
    ended: bool,
    keys_only: bool,
) -> None:
    """Append to `items` the old state of the keys in `chunk`, or of all remaining keys if it is the last chunk."""
    existing = undone.existing
    for row in chunk:
        while undone.merged < len(existing) and existing[undone.merged] < row[0]:
            items.append(_restored(connection, existing[undone.merged], undone, keys_only=keys_only))
            undone.merged += 1
        if row[0] not in undone.then:
            items.append(_key_value(row))
    if ended:
        items.extend(_restored(connection, key, undone, keys_only=keys_only) for key in existing[undone.merged :])


def _restored(connection: apsw.Connection, key: str, undone: _Undone, *, keys_only: bool) -> KeyValue:
    seq, create_revision = undone.then[key]
    value = b""
    if not keys_only:
        ((value,),) = fetch(connection, _VALUE, seq)
    return KeyValue(key, value, seq >> ORDINAL_BITS, create_revision)


async def _count(connection: apsw.Connection, after: str, upper: str | bytes) -> int:
    total = 0
    while True:
        counted: int
        ((counted, last),) = fetch(connection, _COUNT, after, upper, _COUNTED)
        total += counted
        if counted < _COUNTED:
            return total
        after = last
        await asyncio.sleep(0)


async def _count_up_to(connection: apsw.Connection, lower: str, upper: str | bytes, most: int) -> int:
    total = 0
    while True:
        wanted = min(_COUNTED, most - total)
        counted: int
        ((counted, last),) = fetch(connection, _COUNT_FROM, lower, upper, wanted)
        total += counted
        if counted < _COUNTED or total >= most:
            return total
        lower = f"{last}\x01"
        await asyncio.sleep(0)


def _boundary(connection: apsw.Connection, after: int, until: int) -> int:
    """The end of a slice of writes after `after`: the end of a revision, at most about `_SCANNED` writes later."""
    rows = fetch(connection, _BOUNDARY, after, until, _SCANNED)
    return min(int(rows[0][0]) | ORDINAL_MASK, until) if rows else until


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
