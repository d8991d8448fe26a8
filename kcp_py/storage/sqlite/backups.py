"""Copies of a database: taken while a server runs, and put in the place of one that is lost.

The revision of a restore must not go back. Clients hold revisions that came after the backup, and would watch from them and not learn
what was lost. So it is raised above all that any client can have seen, and everything before counts as compacted: a client with an older
revision is told to list again. (etcd: `etcdutl snapshot restore --bump-revision --mark-compacted`.)
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
"""As etcd's documentation advises: a store would need 10,000 writes a second for more than a day to come so far."""
LARGEST_REVISION: Final = (1 << 63 - ORDINAL_BITS) - 1


class Restored(NamedTuple):
    """What a restore did."""

    state: State
    replaced: Path | None
    """Where the database is now that was there before; None where there was none."""


def back_up(path: str | Path, target: str | Path) -> State:
    """Write the present state of a database into a new file, which is there whole and durable or not at all.

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
    """Put a backup in the place of a database, which is kept beside it under another name.

    Args:
        backup: a database file of any format; of `back_up`, or copied while no server ran.
        path: the store's file; no server may be running on it. Its folder must exist.
        bump: by how much the revision is raised above that of the backup, and above that of the database which is replaced, if that can
            be read.

    Raises:
        LockedDatabaseError: a server is running.
        StorageError: the backup cannot be used. Nothing is changed.
        OSError: the folder cannot be written. What was there is still there, or a new attempt succeeds.
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
    """A connection to a database that is as it should be, as far as that shows without reading all of it."""
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
    """The revision of the database that is replaced; 0 where it cannot be read."""
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
    """Give the database a second name beside its first: until the first is taken by another, it is the store."""
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
    """Take the log from beside the path: it must never be applied to the new database. Without it the old one is not opened either."""
    log = Path(f"{path}-wal")
    if log.exists():
        log.rename(f"{replaced or f'{path}.replaced'}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)
    sync_folder(path)
