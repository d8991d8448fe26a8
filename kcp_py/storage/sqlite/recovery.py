"""Opens the database anew after a commit that failed.

A failed sync needs more than that. The system may call bytes clean that it could not write, and no later sync writes them: what would be
appended to such a log is lost with it when the power fails. But every acknowledged commit was synced before that. SQLite keeps the end of
the last one in the index of the log, which the readers' connections keep open. So everything up to there is copied into the database file,
whose new bytes are written and synced; the log, with the commit that failed at its end, is emptied and begins anew. A commit that changes
nothing shows at last that the disk takes writes.
"""

from __future__ import annotations

import apsw

from kcp_py.storage.sqlite.database import Database
from kcp_py.storage.sqlite.state import State, read_state

_PROBE = "UPDATE meta SET number = number WHERE name = 'compact_revision'"


def is_failed_sync(error: apsw.Error) -> bool:
    """Whether it is unknown which of the bytes that were written are on the disk."""
    return getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)


def reopen(database: Database, connection: apsw.Connection, *, unsynced: bool) -> tuple[apsw.Connection, State]:
    """A new writing connection, and what it finds: a commit that failed may be there, whole, unless its sync failed.

    Args:
        database: the opened file. Other connections to it must be open.
        connection: the writing one, on which a commit failed; it is closed.
        unsynced: a sync failed.

    Raises:
        apsw.Error, StorageError, OSError: not yet; to be tried again.
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
