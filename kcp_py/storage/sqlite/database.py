"""Opens the file: the locks, the checks before anything is changed, the connections.

The order matters. The locks come first, because closing any descriptor of a database file drops the POSIX locks of SQLite in this process.
The header and the write-ahead log are read before SQLite opens the file. A new database is built under another name and renamed, so that
an incomplete one is never opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path
from time import monotonic
from typing import Final

import apsw
import structlog

from kcp_py.storage.contract import DamagedError
from kcp_py.storage.sqlite import checksums
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, DatabaseFileError, translated
from kcp_py.storage.sqlite.header import WHAT_TO_DO, check_header, check_size
from kcp_py.storage.sqlite.locks import FileLock, LockFile
from kcp_py.storage.sqlite.log import LogCheck, read_log, settle_log
from kcp_py.storage.sqlite.rewriting import Progress, create, rewrite, sync_folder
from kcp_py.storage.sqlite.schema import FORMAT
from kcp_py.storage.sqlite.state import fetch

_log: Final = structlog.get_logger("kcp_py.storage")

_TABLES: Final = {"current", "value", "history", "meta"}
_PROGRESS_SECONDS: Final = 5.0


class Database:
    """An opened and locked file, and its connections."""

    def __init__(self, path: str | Path, *, max_pages: int = 0) -> None:
        """Lock and check the file. Create it if it does not exist, and convert it to the current format.

        Args:
            path: the file; symbolic links are resolved. Its folder must exist.
            max_pages: `PRAGMA max_page_count`; 0 for SQLite's own limit.

        Raises:
            LockedDatabaseError: it is in use.
            IncompatibleDatabaseError: it belongs to another program or a newer version.
            CorruptDatabaseError: it is damaged.
            NoSpaceError: the disk has no space to convert it to the current format.
            DatabaseFileError: it cannot be opened or created.
        """
        self.path = os.path.realpath(path)
        self._max_pages = max_pages
        self._log_check = LogCheck(self.path)
        self._carrying_over = threading.Lock()
        self._unsynced = False
        self._file_lock: FileLock | None = None
        _check_kind(self.path)
        try:
            self._lock = LockFile(self.path)
        except OSError as error:
            raise DatabaseFileError(f"cannot open {self.path}: {error.strerror}") from error
        try:
            self._prepare()
            self._lock.hold(log_expected=self._lock.log_expected)
        except BaseException as error:
            if self._file_lock is not None:
                self._file_lock.release()
            self._lock.release(remove=self._lock.made, clean=False)
            if isinstance(error, OSError):
                raise DatabaseFileError(f"cannot open {self.path}: {error.strerror}") from error
            if isinstance(error, apsw.Error):
                raise translated(error) from error
            raise

    def connect(self, *, writer: bool = False) -> apsw.Connection:
        """A new connection. At most one may be the writer's."""
        connection = _connected(self.path, cache_kilobytes=4096 if writer else 1024)
        if writer:
            _pragma(connection, "journal_mode = WAL")
            _pragma(connection, f"journal_size_limit = {64 << 20}")
            if self._max_pages:
                _pragma(connection, f"max_page_count = {self._max_pages}")
            fetch(connection, "SELECT 1 FROM meta")  # creates the log, which must exist from now on
            sync_folder(self.path)  # including after a power failure
            self._lock.hold(log_expected=True)
        else:
            _pragma(connection, "query_only = ON")
        return connection

    def check_place(self) -> None:
        """Check that the path still names the opened file. Writes into another file would be lost at the next start.

        Raises:
            DatabaseFileError: the file was removed, renamed or replaced.
        """
        if self._file_lock is not None and not self._file_lock.names(self.path):
            raise DatabaseFileError(f"{self.path} was moved, removed or replaced under the running server: put it back, or stop the server")

    def copy_log(self, connection: apsw.Connection, *, truncate: bool = False) -> None:
        """Copy the part of the write-ahead log that no reader needs into the file, without waiting for readers or writers.

        SQLite does not verify the checksums of the log when it copies, and gives each page a new one. Therefore this method verifies them.

        Args:
            connection: any connection.
            truncate: return the space of the log to the disk, unless a reader needs the log.

        Raises:
            CorruptDatabaseError: the log is damaged. Nothing is copied.
        """
        self._check_log(connection)
        # A failure loses nothing: the log remains for the next attempt. Therefore a failure is not reported as one of the preceding commit.
        try:
            self._carry_over(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE if truncate else apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.FullError:
            pass  # reported by the next write
        except (apsw.Error, DatabaseFileError) as error:
            _log.error("storage_checkpoint_failed", error=str(error))

    def empty_log(self, connection: apsw.Connection) -> None:
        """Copy the whole log, so that it is empty.

        Raises:
            apsw.Error, DatabaseFileError: the log cannot be copied.
        """
        if not self._carry_over(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE):
            raise apsw.BusyError("the write-ahead log is being read")

    def _carry_over(self, connection: apsw.Connection, mode: int) -> bool:
        """Copy and sync; returns whether the copy is complete. A passive copy does not wait for one of another thread.

        Until an incomplete copy is synced, no other thread may complete it, because the next commit would restart the log.
        """
        if not self._carrying_over.acquire(blocking=mode != apsw.SQLITE_CHECKPOINT_PASSIVE):
            return False
        try:
            return self._copy_and_sync(connection, mode)
        finally:
            self._carrying_over.release()

    def _copy_and_sync(self, connection: apsw.Connection, mode: int) -> bool:
        """Copy, and sync pages that SQLite may not have synced: it does not sync an incomplete copy, and never writes its pages again.

        If this sync fails, the log must remain until a start has copied all of it again.
        """
        if self._unsynced:
            raise DatabaseFileError(f"{self.path} could not be synced: its write-ahead log is kept until the server is started again")
        complete = True
        try:
            connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.LockedError):
            complete = False  # readers continue
        except apsw.Error:
            # The pages are copied again. The system reports a failed sync once for each descriptor, and for this one now.
            if self._file_lock is not None:
                with contextlib.suppress(OSError):
                    self._file_lock.sync()
            raise
        if self._file_lock is not None:
            try:
                self._file_lock.sync()
            except OSError as error:
                self._unsynced = True
                raise DatabaseFileError(f"{self.path} could not be synced: {error.strerror}") from error
        return complete

    def _check_log(self, connection: apsw.Connection) -> None:
        try:
            damage = self._log_check.damage(_log_length(connection))
        except OSError as error:
            _log.error("storage_checkpoint_failed", error=str(error))
            return
        if damage:
            raise CorruptDatabaseError(f"{self.path}: {damage}; stop the server and run kcp-py restore")

    def close_writer(self, connection: apsw.Connection) -> None:
        """Copy the log into the file, and close the last connection. A damaged log is left unchanged."""
        try:
            self._check_log(connection)
        except CorruptDatabaseError as error:
            _log.error("storage_log_damaged", error=str(error))
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()
            return
        try:
            self.empty_log(connection)
            self._lock.hold()
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except (apsw.Error, DatabaseFileError):
            pass  # the log remains, and the next start expects it
        connection.close()

    def close(self) -> None:
        """Release the locks. Every connection must have been closed."""
        if self._file_lock is not None:
            self._file_lock.release()
        try:
            clean = not Path(f"{self.path}-wal").exists()
        except OSError:  # the permissions of the directory were removed
            clean = False
        self._lock.release(clean=clean)

    def _prepare(self) -> None:
        try:
            self._file_lock = FileLock(self.path)
        except FileNotFoundError:
            if _size(f"{self.path}-wal"):
                raise CorruptDatabaseError(
                    f"{self.path} is missing, but its write-ahead log {self.path}-wal is there: put the file back, or run kcp-py restore"
                ) from None
            create(self.path)
            self._file_lock = FileLock(self.path)
            self._lock.log_expected = False
            return
        if self._lock.log_expected and not Path(f"{self.path}-wal").exists():
            raise CorruptDatabaseError(
                f"the write-ahead log {self.path}-wal is missing, and acknowledged writes with it: put it back, or run kcp-py restore; "
                f"to go on without them, remove {self.path}.lock"
            )
        version = check_header(self.path)
        log = read_log(self.path)
        if log.damage:
            raise CorruptDatabaseError(
                f"{self.path}: {log.damage}; run kcp-py restore, or move {self.path}-wal away to go on without what it holds"
            )
        if log.doubt:
            _log.warning("storage_log_cut_short", path=self.path, error=log.doubt)
        check_size(self.path, log)
        settle_log(self.path)
        self._check_readable()
        if version < FORMAT:
            self._migrate()

    def _migrate(self) -> None:
        """Write the content into a file of the current format, which replaces the old file."""
        _log.info("storage_migration_started", path=self.path, format=FORMAT)
        source = checksums.connect(self.path)
        try:
            source.set_busy_timeout(1000)
            # The log must be removed before the new file gets the name of the old one, because it would be applied. It is not expected from
            # the moment when it is empty.
            ((busy, _, _),) = fetch(source, "PRAGMA wal_checkpoint(TRUNCATE)")
            if not busy:
                self._lock.hold()
                self._lock.log_expected = False
            if busy or fetch(source, "PRAGMA journal_mode = DELETE") != [("delete",)]:
                raise DatabaseFileError(f"{self.path} is in use by another program, and cannot be brought to format {FORMAT}")
            rewrite(source, self.path, history=True, progress=self._told())
        finally:
            source.close()
        replaced, self._file_lock = self._file_lock, FileLock(self.path)
        if replaced is not None:
            replaced.release()
        _log.info("storage_migrated", path=self.path, format=FORMAT)

    def _told(self) -> Progress:
        next_at = monotonic() + _PROGRESS_SECONDS

        def progress(done: int, total: int) -> None:
            nonlocal next_at
            if monotonic() > next_at:
                next_at = monotonic() + _PROGRESS_SECONDS
                _log.info("storage_migration_progress", path=self.path, rows=done, total=total)

        return progress

    def _check_readable(self) -> None:
        connection = checksums.connect(self.path)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            connection.set_busy_timeout(1000)
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if not found >= _TABLES:
                raise CorruptDatabaseError(f"{self.path} is damaged: tables are missing; {WHAT_TO_DO}")
            for table in sorted(_TABLES):
                connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608
        except apsw.ReadOnlyError as error:
            raise DatabaseFileError(f"cannot write {self.path} or into its folder: {error}") from error
        except apsw.Error as error:
            problem = translated(error)
            if isinstance(problem, CorruptDatabaseError | DamagedError):
                raise CorruptDatabaseError(f"{self.path} is damaged: {error}; {WHAT_TO_DO}") from error
            raise problem from error
        finally:
            connection.close()


def open_reading(path: str) -> apsw.Connection:
    """A connection that does not write, to a file that this process or another one has opened as its store."""
    connection = _connected(path, cache_kilobytes=1024)
    _pragma(connection, "query_only = ON")
    return connection


def _connected(path: str, *, cache_kilobytes: int) -> apsw.Connection:
    connection = checksums.connect(path)
    # Only `close_writer` removes the log. A connection that an interrupted start closes must not remove it, because the next start
    # refuses a file without its log.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Otherwise SQLite compiles a statement with a join again for each key, in case its plan depends on the key: 5 us instead of 2 us.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(50)
    connection.wal_autocheckpoint(0)
    _pragma(connection, "synchronous = FULL")
    _pragma(connection, "mmap_size = 0")
    _pragma(connection, "trusted_schema = OFF")
    _pragma(connection, "temp_store = MEMORY")
    _pragma(connection, f"cache_size = {-cache_kilobytes}")
    return connection


def _log_length(connection: apsw.Connection) -> int | None:
    """The number of frames of all commits in the write-ahead log, by its index. None where the index cannot be read."""
    try:
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    except apsw.Error:
        return None
    return frames if frames >= 0 else None


def _check_kind(path: str) -> None:
    """Refuse a path that is not a regular file, before a lock file is created in its directory, which may be one of devices."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return  # opening it reports the reason
    if not stat.S_ISREG(mode):
        raise DatabaseFileError(f"cannot open {path}: {'Is a directory' if stat.S_ISDIR(mode) else 'not a regular file'}")


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _pragma(connection: apsw.Connection, setting: str) -> None:
    # A cursor stops at the first row and skips later statements, so each pragma is run to its end.
    connection.execute(f"PRAGMA {setting}").fetchall()
