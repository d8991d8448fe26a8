"""Reopens the database after a failed commit.

A failed sync requires more. The system may consider bytes clean that it could not write, and no later sync writes them. Data appended to
such a log would be lost in a power failure. However, every acknowledged commit was synced before. SQLite keeps the end of the last one
in the index of the log, which the connections of the readers keep open. Everything up to there is copied into the database file and
synced. The log, with the failed commit at its end, is emptied and restarted. Finally a commit without changes verifies that the disk
accepts writes.
"""

from __future__ import annotations

import apsw

from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.schema import FORMAT
from kcp_py.storage.sqlite.state import State, read_state

_PROBE = f"PRAGMA user_version = {FORMAT}"
"""Writes the first page. An `UPDATE` that changes nothing would write no page, and therefore not verify the disk."""


def is_failed_sync(error: apsw.Error) -> bool:
    """Whether it is unknown which of the written bytes are on the disk."""
    return getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)


def reopen(database: Database, connection: apsw.Connection, *, unsynced: bool) -> tuple[apsw.Connection, State]:
    """A new writing connection and the state that it finds. A failed commit may be complete, unless its sync failed.

    Args:
        database: the opened file. Other connections to it must be open.
        connection: the writing connection on which a commit failed; it is closed.
        unsynced: whether a sync failed.

    Raises:
        apsw.Error, StorageError, OSError: the database cannot be opened yet; try again.
    """
    database.check_place()
    connection.close()
    fresh = database.connect(writer=True)
    try:
        if unsynced:
            database.empty_log(fresh)
            fresh.execute("BEGIN IMMEDIATE")
            fresh.execute(_PROBE)
            fresh.execute("COMMIT")
        return fresh, read_state(fresh)
    except BaseException:
        fresh.close()
        raise
