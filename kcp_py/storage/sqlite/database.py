"""Opens the file: the lock, the checks before anything is changed, the connections.

The order matters. The lock comes first, because closing any descriptor of a database file drops the POSIX locks that SQLite holds on it in
this process. The header is read before SQLite is let near the file. A new database is built beside and renamed, so that a half-made one is
never seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Any, Final

import apsw

from kcp_py.storage.sqlite.errors import (
    CorruptDatabaseError,
    DatabaseFileError,
    IncompatibleDatabaseError,
    LockedDatabaseError,
    translated,
)
from kcp_py.storage.sqlite.schema import APPLICATION_ID, CREATE, FORMAT

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER: Final = 100
_TABLES: Final = {"current", "value", "history", "meta"}


class Database:
    """An opened and locked file, from which connections are made."""

    def __init__(self, path: str | Path, *, max_pages: int = 0) -> None:
        """Lock and check the file; create it where there is none.

        Args:
            path: the file; symbolic links are resolved. Its folder must exist.
            max_pages: `PRAGMA max_page_count`; 0 for SQLite's own limit.

        Raises:
            LockedDatabaseError: it is in use.
            IncompatibleDatabaseError: it is not ours, or newer than we are.
            CorruptDatabaseError: it is damaged.
            DatabaseFileError: it cannot be opened or created.
        """
        self.path = os.path.realpath(path)
        self._max_pages = max_pages
        try:
            self._lock = _Lock(self.path)
        except OSError as error:
            raise DatabaseFileError(f"cannot open {self.path}: {error.strerror}") from error
        try:
            if _is_new(self.path):
                _create(self.path)
            self._check_readable()
        except BaseException as error:
            self._lock.release(remove=self._lock.made)
            if isinstance(error, OSError):
                raise DatabaseFileError(f"cannot open {self.path}: {error.strerror}") from error
            if isinstance(error, apsw.Error):
                raise translated(error) from error
            raise

    def connect(self, *, writer: bool = False) -> apsw.Connection:
        """A new connection; one at most may be the writer's."""
        connection = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=64)
        connection.set_busy_timeout(50)
        connection.wal_autocheckpoint(0)
        _pragma(connection, "synchronous = FULL")
        _pragma(connection, "mmap_size = 0")
        _pragma(connection, "trusted_schema = OFF")
        _pragma(connection, "temp_store = MEMORY")
        _pragma(connection, f"cache_size = {-4096 if writer else -1024}")
        if writer:
            _pragma(connection, "journal_mode = WAL")
            _pragma(connection, f"journal_size_limit = {64 << 20}")
            if self._max_pages:
                _pragma(connection, f"max_page_count = {self._max_pages}")
        else:
            _pragma(connection, "query_only = ON")
        return connection

    def close(self) -> None:
        """Release the lock. Every connection must have been closed."""
        self._lock.release()

    def _check_readable(self) -> None:
        connection = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            connection.set_busy_timeout(1000)
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if not found >= _TABLES:
                raise CorruptDatabaseError(f"{self.path} is damaged: tables are missing")
            for table in sorted(_TABLES):
                connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608
            ((pages,),) = connection.execute("PRAGMA page_count")
            ((size,),) = connection.execute("PRAGMA page_size")
            log = Path(f"{self.path}-wal")
            if not (log.exists() and log.stat().st_size) and Path(self.path).stat().st_size < pages * size:
                raise CorruptDatabaseError(f"{self.path} is damaged: it is shorter than it says")
        except apsw.Error as error:
            problem = translated(error)
            if isinstance(problem, CorruptDatabaseError):
                raise CorruptDatabaseError(f"{self.path} is damaged: {error}") from error
            raise problem from error
        finally:
            connection.close()


class _Lock:
    """An advisory lock beside the file, which names its holder."""

    def __init__(self, path: str) -> None:
        self._path = Path(f"{path}.lock")
        self.made = not self._path.exists()
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise LockedDatabaseError(f"{path} is in use by {who}") from None
        except OSError:
            os.close(self._descriptor)
            raise
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self, *, remove: bool = False) -> None:
        if remove:
            with contextlib.suppress(OSError):
                self._path.unlink()
        else:
            os.truncate(self._descriptor, 0)
        os.close(self._descriptor)


def _is_new(path: str) -> bool:
    """Whether there is no database yet; refuses what is not ours by the header's own bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        header = os.pread(descriptor, _HEADER, 0)
    finally:
        os.close(descriptor)
    if not header:
        return True
    if header[:16] != _MAGIC or len(header) < _HEADER:
        raise IncompatibleDatabaseError(f"{path} is not a database")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise IncompatibleDatabaseError(f"{path} is a database of another program")
    version = int.from_bytes(header[60:64], "big")
    if version > FORMAT:
        raise IncompatibleDatabaseError(f"{path} was written by a newer version (format {version}; this version reads up to {FORMAT})")
    return False


def _create(path: str) -> None:
    draft = Path(f"{path}.new")
    for leftover in (draft, Path(f"{draft}-journal"), Path(f"{draft}-wal"), Path(f"{draft}-shm")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(draft), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for _ in connection.execute(CREATE):
            pass
        _pragma(connection, "journal_mode = WAL")
    finally:
        connection.close()
    draft.replace(path)
    folder = os.open(draft.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def copy_log(connection: apsw.Connection) -> None:
    """Carry as much of the write-ahead log over into the file as no reader needs; never waits for readers or writers."""
    # Nothing is lost by a failure: the log stays, and the next attempt finds it. A disk that is full or fails is reported by the writes.
    with contextlib.suppress(apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def fetch(connection: apsw.Connection, statement: str, *bindings: apsw.SQLiteValue) -> list[Any]:
    """All rows. A statement that has not come to its end keeps its snapshot open, so none is left half-read by accident."""
    return connection.execute(statement, bindings).fetchall()


def _pragma(connection: apsw.Connection, setting: str) -> None:
    # A cursor stops at the first row, and with it the statements behind: each pragma is run to its end.
    connection.execute(f"PRAGMA {setting}").fetchall()
