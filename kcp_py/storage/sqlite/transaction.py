"""The transactions of a group of callers, which become one commit.

Each transaction has its own compares and its own revision, and sees the writes of earlier ones. A group is carried out in three steps, so
that each kind of statement runs in a loop of its own: between other work a statement takes 20 us, because that work has replaced the
processor's caches, and in a loop 3 us.

1. `prefetch` reads the keys of the group that no cache has.
2. `carry_out` decides about each transaction and records its writes in memory.
3. `flush` runs the statements of all writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import apsw

from kcp_py.storage.contract import Compare, ConflictError, DamagedError, Event, KeyValue, Operation, Put
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.schema import ORDINAL_BITS

_FIND: Final = "SELECT key, seq, create_revision, NULL FROM current WHERE key = ?"
_FIND_VALUE: Final = """
    SELECT c.key, c.seq, c.create_revision, v.value FROM current c LEFT JOIN value v ON v.seq = c.seq WHERE c.key = ?
"""
_VALUE: Final = "SELECT value FROM value WHERE seq = ?"
_INSERT_CURRENT: Final = "INSERT INTO current VALUES (?, ?, ?)"
_UPDATE_CURRENT: Final = "UPDATE current SET seq = ?, create_revision = ? WHERE key = ?"
_DELETE_CURRENT: Final = "DELETE FROM current WHERE key = ?"
_INSERT_VALUE: Final = "INSERT INTO value VALUES (?, ?)"
_INSERT_HISTORY: Final = "INSERT INTO history VALUES (?, ?, ?, ?, ?)"
_ROWS: Final = 64
"""Rows that are written between two checks of the clock."""


class _State(NamedTuple):
    """An existing key, as the group has left it so far."""

    seq: int
    create_revision: int
    value: bytes | None
    """None: not read yet."""


class Transactions:
    """Runs groups of transactions on one connection with an open SQLite transaction."""

    def __init__(self, connection: apsw.Connection, hot: HotKeys, range_cache: RangeCache, recent: RecentWrites) -> None:
        """Prepare.

        Args:
            connection: the writing connection.
            hot: knows keys, and drops the written ones.
            range_cache: drops the spans of the written keys.
            recent: records the written keys.
        """
        self._cursor = connection.cursor()
        self._hot = hot
        self._range_cache = range_cache
        self._recent = recent
        self._states: dict[str, _State | None] = {}
        """What the group has read and written so far."""
        self._stored: dict[str, bool] = {}
        """Keys whose writes are not flushed -> whether the table has them."""
        self._written: set[str] = set()
        self._history: list[tuple[int, str, int, int, int]] = []
        self._values: list[tuple[int, bytes]] = []

    def begin(self) -> None:
        """Begin a group, and forget the last one."""
        self._states.clear()
        self._written.clear()
        self._forget_rows()

    def prefetch(self, group: Iterable[tuple[Sequence[Compare], Sequence[Operation]]]) -> None:
        """Read the keys that transactions compare or write."""
        compared: set[str] = set()
        written: set[str] = set()
        states, hot = self._states, self._hot
        for compares, operations in group:
            for operation in operations:
                key = operation.key
                if key not in states and key not in written:
                    item, state = hot.get(key), hot.state(key)
                    if item is not None and state is not None:
                        states[key] = _State(*state, item.value)
                    else:
                        written.add(key)
            for compare in compares:
                if compare.key not in states and hot.state(compare.key) is None:
                    compared.add(compare.key)
        compared -= written
        for statement, keys in ((_FIND, compared), (_FIND_VALUE, written)):
            if not keys:
                continue
            found: Iterable[Any] = self._cursor.executemany(statement, [(key,) for key in keys])
            states.update(dict.fromkeys(keys))
            for key, seq, created, value in found:
                if value is None and keys is written:
                    raise DamagedError([key])
                states[key] = _State(seq, created, value)
                if keys is compared:
                    hot.remember_state(key, (seq, created))

    def carry_out(
        self, compares: Sequence[Compare], operations: Sequence[Operation], revision: int, *, events: list[Event]
    ) -> ConflictError | None:
        """Carry out the transaction of one caller, in memory.

        Args:
            compares: its conditions.
            operations: its writes.
            revision: the revision of the writes.
            events: the events of the transaction are appended.

        Returns:
            The first compare that failed, in which case nothing was written, or None if all hold.
        """
        for key, mod_revision, create_revision in compares:
            state = self._state(key)
            seq, created = (0, 0) if state is None else state[:2]
            if (mod_revision is not None and mod_revision != seq >> ORDINAL_BITS) or (
                create_revision is not None and create_revision != created
            ):
                return ConflictError(key, None if state is None else self._key_value(key, state))
        next_seq = revision << ORDINAL_BITS
        for operation in operations:
            key = operation.key
            state = self._state(key)
            puts = isinstance(operation, Put)
            if state is None and not puts:
                continue
            previous = None if state is None else self._key_value(key, state)
            created = revision if state is None else state.create_revision
            self._stored.setdefault(key, state is not None)
            self._hot.writing(key)
            self._range_cache.writing(key, revision)
            self._recent.writing(key, revision)
            self._history.append((next_seq, key, 0 if state is None else state.seq, created, 0 if puts else 1))
            if isinstance(operation, Put):
                value = operation.value
                self._values.append((next_seq, value))
                self._states[key] = _State(next_seq, created, value)
                events.append(Event(key, value, revision, created, previous))
            else:
                self._states[key] = None
                events.append(Event(key, None, revision, created, previous))
            next_seq += 1
        return None

    def flush(self) -> Iterator[None]:
        """Run the statements of the recorded writes. Each step takes a fraction of a millisecond."""
        inserted: list[tuple[str, int, int]] = []
        updated: list[tuple[int, int, str]] = []
        deleted: list[tuple[str]] = []
        for key, is_stored in self._stored.items():
            state = self._states[key]
            if state is None:
                if is_stored:
                    deleted.append((key,))
            elif is_stored:
                updated.append((state.seq, state.create_revision, key))
            else:
                inserted.append((key, state.seq, state.create_revision))
        statements: tuple[tuple[str, Sequence[tuple[Any, ...]]], ...] = (
            (_INSERT_CURRENT, inserted),
            (_UPDATE_CURRENT, updated),
            (_DELETE_CURRENT, deleted),
            (_INSERT_HISTORY, self._history),
            (_INSERT_VALUE, self._values),
        )
        for statement, rows in statements:
            remaining = iter(rows)
            while some := list(islice(remaining, _ROWS)):
                self._cursor.executemany(statement, some)
                yield
        self._written.update(self._stored)
        self._forget_rows()

    def committed(self) -> None:
        """Let the cache know what the group wrote, because written keys are likely to be read and written again soon."""
        for key in self._written:
            state = self._states[key]
            if state is not None and state.value is not None:
                item = KeyValue(key, state.value, state.seq >> ORDINAL_BITS, state.create_revision)
                self._hot.written(item, (state.seq, state.create_revision))
        self.begin()

    def _forget_rows(self) -> None:
        self._stored.clear()
        self._history.clear()
        self._values.clear()

    def _state(self, key: str) -> _State | None:
        try:
            return self._states[key]
        except KeyError:
            pass
        known = self._hot.state(key)
        if known is not None:
            return _State(*known, None)
        self.prefetch([((), (Put(key, b""),))])
        return self._states[key]

    def _key_value(self, key: str, state: _State) -> KeyValue:
        value = state.value
        if value is None:
            rows: Any = self._cursor.execute(_VALUE, (state.seq,)).fetchall()
            if not rows:
                raise DamagedError([key])
            ((value,),) = rows
        return KeyValue(key, value, state.seq >> ORDINAL_BITS, state.create_revision)
