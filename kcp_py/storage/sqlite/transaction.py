"""One caller's transaction, as statements inside of the writer's.

The transactions of several callers form one commit. Each has its own compares and its own revision, and sees the writes of earlier
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw

from kcp_py.storage.contract import Compare, ConflictError, Event, KeyValue, Operation, Put
from kcp_py.storage.rangecache import RangeCache
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.sqlite.recent import RecentWrites
from kcp_py.storage.sqlite.schema import ORDINAL_BITS

_FIND: Final = "SELECT seq, create_revision FROM current WHERE key = ?"
_VALUE: Final = "SELECT value FROM value WHERE seq = ?"
_INSERT_CURRENT: Final = "INSERT INTO current VALUES (?, ?, ?)"
_CREATE_CURRENT: Final = "INSERT INTO current VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE_CURRENT: Final = "UPDATE current SET seq = ? WHERE key = ?"
_DELETE_CURRENT: Final = "DELETE FROM current WHERE key = ?"
_INSERT_VALUE: Final = "INSERT INTO value VALUES (?, ?)"
_INSERT_HISTORY: Final = "INSERT INTO history VALUES (?, ?, ?, ?, ?)"


class Transactions:
    """Runs transactions on one connection with an open SQLite transaction."""

    def __init__(self, connection: apsw.Connection, hot: HotKeys, range_cache: RangeCache, recent: RecentWrites) -> None:
        """Prepare.

        Args:
            connection: the writing connection.
            hot: drops the written keys.
            range_cache: drops the spans of the written keys.
            recent: records the written keys.
        """
        self._connection = connection
        self._cursor = connection.cursor()
        self._hot = hot
        self._range_cache = range_cache
        self._recent = recent

    def carry_out(
        self, compares: Sequence[Compare], operations: Sequence[Operation], revision: int, *, events: list[Event]
    ) -> ConflictError | None:
        """Run the transaction of one caller.

        Args:
            compares: its conditions.
            operations: its writes.
            revision: the revision of the writes.
            events: the events of the transaction are appended.

        Returns:
            The first compare that failed, in which case nothing was written, or None if all hold.
        """
        execute: Callable[..., Any] = self._cursor.execute  # the types of the columns are known
        # A key that must not exist and is written first is not looked up: its insertion fails before any other change.
        first = operations[0].key if operations and isinstance(operations[0], Put) else ""
        created_key = ""
        found: dict[str, tuple[int, int] | None] = {}
        for key, mod_revision, create_revision in compares:
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
            self._range_cache.writing(key, revision)
            self._recent.writing(key, revision)
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
        """The conflict of a key that must not exist, or None if it does not exist."""
        rows: Any = self._cursor.execute(_FIND, (key,)).fetchall() if key else ()
        for seq, created in rows:
            return ConflictError(key, self._key_value(key, seq, created))
        return None

    def _key_value(self, key: str, seq: int, create_revision: int) -> KeyValue:
        rows: Any = self._cursor.execute(_VALUE, (seq,)).fetchall()
        ((value,),) = rows
        return KeyValue(key, value, seq >> ORDINAL_BITS, create_revision)
