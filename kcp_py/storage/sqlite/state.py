"""Where a store is: its revisions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import apsw

from kcp_py.storage.sqlite.schema import ORDINAL_BITS

_STATE: Final = "SELECT (SELECT seq FROM history ORDER BY seq DESC LIMIT 1), (SELECT number FROM meta WHERE name = 'compact_revision')"


class State(NamedTuple):
    """Where the store is, in one snapshot."""

    revision: int
    compact_revision: int


def read_state(connection: apsw.Connection) -> State:
    """The revisions, as the connection's transaction sees them."""
    ((newest, compact_revision),) = fetch(connection, _STATE)
    return State(max((newest or 0) >> ORDINAL_BITS, compact_revision), compact_revision)


def fetch(connection: apsw.Connection, statement: str, *bindings: apsw.SQLiteValue) -> list[Any]:
    """All rows. A statement that has not come to its end keeps its snapshot open, so none is left half-read by accident."""
    return connection.execute(statement, bindings).fetchall()
