"""Errors of a database file, and the translation of SQLite's errors to those of the contract."""

from __future__ import annotations

import errno

import apsw

from kcp_py.storage.contract import DamagedError, NoSpaceError, StorageError, UnavailableError


class DatabaseFileError(StorageError):
    """The file cannot be used as the store. It was not changed."""


class IncompatibleDatabaseError(DatabaseFileError):
    """The file is not a database of this program, or one of a newer version of it."""


class CorruptDatabaseError(DatabaseFileError):
    """The file is damaged."""


class LockedDatabaseError(DatabaseFileError):
    """Another process (or another part of this one) has the file open as its store."""


def is_damage(error: apsw.Error) -> bool:
    """Whether a page could not be read because its checksum or its references to other pages are wrong."""
    if isinstance(error, apsw.IOError):
        return bool(getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA)
    return isinstance(error, apsw.CorruptError)


def translated(error: apsw.Error) -> StorageError:
    """The contract's error for one of SQLite's."""
    match error:
        case apsw.FullError():
            return NoSpaceError("no space is left for the database")
        case apsw.IOError() if is_damage(error):
            return DamagedError()
        case apsw.CorruptError() | apsw.NotADBError():
            return CorruptDatabaseError(f"the database is damaged: {error}")
        case _:
            return UnavailableError(f"the database failed: {type(error).__name__}: {error}")


def may_lack_room(error: StorageError) -> bool:
    """Whether a database could not be opened for a reason that a full disk can cause."""
    if isinstance(error, NoSpaceError | UnavailableError):
        return True
    cause = error.__cause__
    return isinstance(error, DatabaseFileError) and isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}
