"""The transactions of a group of callers, which become one commit.

Each transaction has its own compares and its own revision, and sees the writes of earlier ones. A group is carried out in three steps, so
that each kind of statement runs in a loop of its own: between other work a statement takes 20 us, because that work has replaced the
processor's caches, and in a loop 3 us.

1. `prefetch` reads the keys of the group that no cache has.
2. `carry_out` decides about each transaction and records its writes in memory.
3. `flush` runs the statements of all writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

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


_State = tuple[int, int, KeyValue | None]
"""An existing key, as the group has left it so far: its seq, its create revision, and the key with its value if that was read."""

_key_value: Final[Callable[[tuple[str, bytes, int, int]], KeyValue]] = partial(tuple.__new__, KeyValue)
_event: Final[Callable[[tuple[str, bytes | None, int, int, KeyValue | None]], Event]] = partial(tuple.__new__, Event)


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
        states, hot_item, hot_state = self._states, self._hot.get, self._hot.state
        for compares, operations in group:
            for operation in operations:
                key = operation.key
                if key not in states and key not in written:
                    item, state = hot_item(key), hot_state(key)
                    if item is None:
                        written.add(key)
                    elif state is None:
                        compared.add(key)
                    else:
                        states[key] = (state[0], state[1], item)
            for key, _, _ in compares:
                if key not in states:
                    state = hot_state(key)
                    if state is None:
                        compared.add(key)
                    else:
                        states[key] = (state[0], state[1], hot_item(key))
        compared -= written
        for statement, keys in ((_FIND, compared), (_FIND_VALUE, written)):
            if not keys:
                continue
            found: Iterable[Any] = self._cursor.executemany(statement, [(key,) for key in keys])
            states.update(dict.fromkeys(keys))
            for key, seq, created, value in found:
                if keys is compared:
                    states[key] = (seq, created, hot_item(key))
                    self._hot.remember_state(key, (seq, created))
                elif value is None:
                    raise DamagedError([key])
                else:
                    states[key] = (seq, created, _key_value((key, value, seq >> ORDINAL_BITS, created)))

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
        states, stored, hot = self._states, self._stored, self._hot
        for key, mod_revision, create_revision in compares:
            state = states[key] if key in states else self._found(key)
            if state is None:
                seq = created = 0
            else:
                seq, created, _ = state
            if (mod_revision is not None and mod_revision != seq >> ORDINAL_BITS) or (
                create_revision is not None and create_revision != created
            ):
                return ConflictError(key, None if state is None else state[2] or self._read(key, seq, created))
        seq = revision << ORDINAL_BITS
        for operation in operations:
            key = operation.key
            value = operation.value if isinstance(operation, Put) else None
            state = states[key] if key in states else self._found(key)
            if state is None:
                if value is None:
                    continue
                replaced, created, previous = 0, revision, None
            else:
                replaced, created, previous = state
                if previous is None:
                    previous = self._read(key, replaced, created)
            if key not in stored:
                stored[key] = state is not None
            hot.writing(key)
            self._range_cache.writing(key, revision)
            self._recent.writing(key, revision)
            if value is None:
                states[key] = None
                self._history.append((seq, key, replaced, created, 1))
            else:
                states[key] = (seq, created, _key_value((key, value, revision, created)))
                self._history.append((seq, key, replaced, created, 0))
                self._values.append((seq, value))
            events.append(_event((key, value, revision, created, previous)))
            seq += 1
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
                updated.append((state[0], state[1], key))
            else:
                inserted.append((key, state[0], state[1]))
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
        states, written = self._states, self._hot.written
        for key in self._written:
            state = states[key]
            if state is not None:
                seq, created, item = state
                if item is not None:
                    written(item, (seq, created))
        self.begin()

    def _forget_rows(self) -> None:
        self._stored.clear()
        self._history.clear()
        self._values.clear()

    def _found(self, key: str) -> _State | None:
        """The state of a key that was not prefetched."""
        self.prefetch([((), (Put(key, b""),))])
        return self._states[key]

    def _read(self, key: str, seq: int, create_revision: int) -> KeyValue:
        rows: Any = self._cursor.execute(_VALUE, (seq,)).fetchall()
        if not rows:
            raise DamagedError([key])
        ((value,),) = rows
        return _key_value((key, value, seq >> ORDINAL_BITS, create_revision))
