"""Removes the history before a compaction, a slice with each commit, so that no commit waits for all of it."""

from __future__ import annotations

from typing import Any, Final

import apsw

from kcp_py.storage.sqlite.schema import last_seq
from kcp_py.storage.sqlite.state import fetch

_PURGED: Final = 500
"""The number of writes that compaction removes with one commit."""

_PURGE_BOUNDARY: Final = "SELECT seq FROM history WHERE seq <= ? ORDER BY seq LIMIT 1 OFFSET ?"
_PURGE_VALUES: Final = "DELETE FROM value WHERE seq IN (SELECT previous FROM history WHERE seq <= ?)"
_PURGE_HISTORY: Final = "DELETE FROM history WHERE seq <= ?"
_ANY_TO_PURGE: Final = "SELECT 1 FROM history WHERE seq <= ? LIMIT 1"


def any_to_purge(connection: apsw.Connection, compact_revision: int) -> bool:
    """Whether compacted history still has to be removed."""
    return bool(fetch(connection, _ANY_TO_PURGE, last_seq(compact_revision)))


def purge(cursor: apsw.Cursor, compact_revision: int) -> bool:
    """Remove a slice, inside of an open transaction; returns whether there may be more."""
    bound, more = last_seq(compact_revision), False
    rows: Any = cursor.execute(_PURGE_BOUNDARY, (bound, _PURGED)).fetchall()
    for (seq,) in rows:
        bound, more = seq, True
    cursor.execute(_PURGE_VALUES, (bound,))
    cursor.execute(_PURGE_HISTORY, (bound,))
    return more
