"""Backups of a database while a server runs, and their restore.

A restore must not decrease the revision. Clients have revisions from after the backup, would watch from them, and would miss the lost
writes. Therefore the revision is increased above all revisions that a client can have seen, and earlier revisions count as compacted: a
client with an older revision has to list again. (etcd: `etcdutl snapshot restore --bump-revision --mark-compacted`.)
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from kcp_py.storage.contract import StorageError
from kcp_py.storage.sqlite import checksums
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, DatabaseFileError, is_damage, translated
from kcp_py.storage.sqlite.header import BACKUP, STORE, Advice, check_header, check_size
from kcp_py.storage.sqlite.locks import FileLock, LockFile
from kcp_py.storage.sqlite.log import read_log
from kcp_py.storage.sqlite.rewriting import rewrite, sync_folder
from kcp_py.storage.sqlite.schema import ORDINAL_BITS
from kcp_py.storage.sqlite.state import State, read_state

DEFAULT_BUMP: Final = 1_000_000_000
"""The value in etcd's documentation. A store reaches it with 10,000 writes a second for more than a day."""
LARGEST_REVISION: Final = (1 << 63 - ORDINAL_BITS) - 1


class Restored(NamedTuple):
    """The result of a restore."""

    state: State
    replaced: Path | None
    """The path of the replaced database; None if there was none."""


def back_up(path: str | Path, target: str | Path) -> State:
    """Write the current state of a database into a new file. The file is complete and durable, or does not exist.

    Args:
        path: the database; a server may be running on it.
        target: a file that does not exist yet.

    Raises:
        StorageError: the database cannot be read, or is damaged.
        OSError: the target exists or cannot be written.
    """
    if Path(target).exists():
        raise FileExistsError(17, "File exists", str(target))
    with _reading(path, in_use=True) as source:
        return rewrite(source, target, history=False, journal="DELETE")


def restore(backup: str | Path, path: str | Path, *, bump: int = DEFAULT_BUMP) -> Restored:
    """Replace a database with a backup. The replaced database is kept in the same directory under another name.

    Args:
        backup: a database file of any format, from `back_up` or copied while no server was running.
        path: the store's file; no server may be running on it. Its folder must exist.
        bump: the increase of the revision above those of the backup and of the replaced database, if the latter can be read.

    Raises:
        LockedDatabaseError: a server is running.
        StorageError: the backup cannot be used. Nothing is changed.
        OSError: the directory cannot be written. Either nothing has changed, or a repeated restore succeeds.
    """
    real = os.path.realpath(path)
    lock = LockFile(real)
    file_lock: FileLock | None = None
    try:
        with contextlib.suppress(FileNotFoundError):
            file_lock = FileLock(real)
        with _reading(backup, in_use=False, advice=BACKUP) as source:
            revision = _raised(max(read_state(source).revision, _last_revision(real)), bump)
            state = rewrite(source, f"{real}.restored", history=False, revision=revision)
        replaced = _set_aside(real) if file_lock is not None else None
        _move_log(real, replaced)
        Path(f"{real}.restored").replace(real)
        sync_folder(real)
        lock.hold()
    except BaseException:
        lock.release(clean=False)
        raise
    else:
        lock.release()
    finally:
        if file_lock is not None:
            file_lock.release()
    return Restored(state, replaced)


@contextlib.contextmanager
def _reading(path: str | Path, *, in_use: bool, advice: Advice = STORE) -> Iterator[apsw.Connection]:
    """A connection to a database that is valid as far as a check without reading all of it shows."""
    real = os.path.realpath(path)
    try:
        check_header(real, in_use=in_use, advice=advice)
        if not in_use:
            log = read_log(real)
            if log.damage:
                raise CorruptDatabaseError(f"{real}: {log.damage}")
            check_size(real, log, advice=advice)
        connection = checksums.connect(real, flags=apsw.SQLITE_OPEN_READONLY)
    except OSError as error:
        raise DatabaseFileError(f"cannot read {real}: {error.strerror}") from error
    except apsw.Error as error:
        raise DatabaseFileError(f"cannot open {real}: {error}") from error
    try:
        connection.set_busy_timeout(5000)
        yield connection
    except apsw.Error as error:
        if is_damage(error):
            raise CorruptDatabaseError(f"{real} is damaged: kcp-py doctor --storage-path {real} says where") from error
        raise translated(error) from error
    finally:
        connection.close()


def _last_revision(path: str) -> int:
    """The revision of the replaced database; 0 if it cannot be read."""
    try:
        with _reading(path, in_use=False) as connection:
            return read_state(connection).revision
    except StorageError:
        return 0


def _raised(revision: int, bump: int) -> int:
    if revision + bump > LARGEST_REVISION:
        raise StorageError(f"revision {revision + bump} is larger than the store's largest, {LARGEST_REVISION}")
    return revision + bump


def _set_aside(path: str) -> Path:
    """Give the database a second name. It remains the store until another file replaces its first name."""
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    number = 0
    while True:
        name = Path(f"{path}.replaced-{stamp}{f'-{number}' if number else ''}")
        try:
            name.hardlink_to(path)
        except FileExistsError:
            number += 1
        else:
            return name


def _move_log(path: str, replaced: Path | None) -> None:
    """Move the log of the old database away. It must never be applied to the new database, and without it the old one is not opened."""
    log = Path(f"{path}-wal")
    if log.exists():
        log.rename(f"{replaced or f'{path}.replaced'}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)
    sync_folder(path)
