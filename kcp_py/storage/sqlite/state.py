"""The revisions of a store."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import apsw

from kcp_py.storage.contract import CompactedError, FutureRevisionError, StorageError
from kcp_py.storage.sqlite.schema import ORDINAL_BITS

_STATE: Final = "SELECT (SELECT seq FROM history ORDER BY seq DESC LIMIT 1), (SELECT number FROM meta WHERE name = 'compact_revision')"


class State(NamedTuple):
    """The revisions of a store in one snapshot."""

    revision: int
    compact_revision: int

    def refuses(self, compact_revision: int) -> StorageError | None:
        """The error of a compaction at a revision, or None if it is possible."""
        if compact_revision > self.revision:
            return FutureRevisionError(compact_revision, self.revision)
        if compact_revision <= self.compact_revision:
            return CompactedError(compact_revision, self.compact_revision)
        return None


def read_state(connection: apsw.Connection) -> State:
    """The revisions in the transaction of a connection."""
    ((newest, compact_revision),) = fetch(connection, _STATE)
    return State(max((newest or 0) >> ORDINAL_BITS, compact_revision), compact_revision)


def fetch(connection: apsw.Connection, statement: str, *bindings: apsw.SQLiteValue) -> list[Any]:
    """All rows of a statement. An unfinished statement would keep its snapshot open."""
    return connection.execute(statement, bindings).fetchall()
