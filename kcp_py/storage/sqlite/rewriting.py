"""Writes the content of a database into a new file: for the present format, for a backup, for a restore."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, Self

import apsw

from kcp_py.storage.sqlite import checksums
from kcp_py.storage.sqlite.schema import CREATE
from kcp_py.storage.sqlite.state import State, read_state

_ROWS: Final = 10_000
"""Rows between two reports of the progress."""

_CURRENT: Final = "SELECT key, seq, create_revision FROM current ORDER BY key"
_ALL_VALUES: Final = "SELECT seq, value FROM value ORDER BY seq"
_CURRENT_VALUES: Final = "SELECT seq, value FROM value WHERE seq IN (SELECT seq FROM current) ORDER BY seq"
_HISTORY: Final = "SELECT seq, key, previous, create_revision, deleted FROM history ORDER BY seq"

Progress = Callable[[int, int], None]
"""Called from time to time with (rows written, total rows)."""


def create(path: str | Path) -> None:
    """Create a durable, empty database.

    Raises:
        OSError, apsw.Error: it cannot be written.
    """
    with _Draft(path) as draft:
        draft.publish()


def rewrite(
    source: apsw.Connection,
    path: str | Path,
    *,
    history: bool,
    revision: int = 0,
    journal: Literal["WAL", "DELETE"] = "WAL",
    progress: Progress | None = None,
) -> State:
    """Write one snapshot of a connection into a new file. The file is complete and durable, or does not exist.

    Args:
        source: a connection to a database of any format; no transaction may be open.
        path: the new file; one of this name is replaced. It must have no write-ahead log.
        history: whether overwritten and deleted values are kept; otherwise they count as compacted.
        revision: the new revision of the store, before which everything counts as compacted; 0 for no change.
        journal: DELETE creates a file that can be read in a read-only directory.
        progress: see `Progress`.

    Returns:
        The state of the new store.

    Raises:
        OSError, apsw.Error: the source cannot be read or the new file cannot be written; what `path` named before is untouched.
    """
    source.execute("BEGIN")
    try:
        state = read_state(source)
        history = history and not revision
        if not history:
            latest = max(state.revision, revision)
            state = State(latest, latest)
        values = _ALL_VALUES if history else _CURRENT_VALUES
        copies = [(_CURRENT, "INSERT INTO current VALUES (?, ?, ?)"), (values, "INSERT INTO value VALUES (?, ?)")]
        if history:
            copies.append((_HISTORY, "INSERT INTO history VALUES (?, ?, ?, ?, ?)"))
        total = sum(source.execute(f"SELECT count(*) FROM ({select})").fetchone()[0] for select, _ in copies)  # type: ignore[index] # noqa: S608
        with _Draft(path) as draft:
            target = draft.connection
            target.execute("BEGIN")
            done = 0
            for select, insert in copies:
                target.executemany(insert, _told(source.execute(select), done, total, progress))
                done = target.total_changes()
            target.execute("UPDATE meta SET number = ? WHERE name = 'compact_revision'", (state.compact_revision,))
            target.execute("COMMIT")
            draft.publish(journal)
        return state
    finally:
        if source.in_transaction:  # a damaged page ends it
            source.execute("ROLLBACK")


def sync_folder(path: str | Path) -> None:
    """Make renames in the folder of a file durable."""
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _Draft:
    """A new database under a temporary name, which replaces a path when it is published."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._draft = Path(f"{path}.new")

    def __enter__(self) -> Self:
        self._remove()
        os.close(os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        # The first page declares the checksums, so it is written before the connection for the rest is opened.
        first = checksums.connect(str(self._draft))
        first.reserve_bytes(reserve=checksums.RESERVED)
        first.execute(CREATE).fetchall()
        first.close()
        self.connection = checksums.connect(str(self._draft))
        for setting in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -16384"):
            self.connection.execute(f"PRAGMA {setting}").fetchall()
        return self

    def publish(self, journal: str = "WAL") -> None:
        self.connection.execute("PRAGMA locking_mode = NORMAL").fetchall()
        self.connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
        self.connection.close()
        descriptor = os.open(self._draft, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._draft.replace(self._path)
        sync_folder(self._path)

    def __exit__(self, *exc_info: object) -> None:
        self.connection.close()
        self._remove()

    def _remove(self) -> None:
        for ending in ("", "-journal", "-wal", "-shm"):
            Path(f"{self._draft}{ending}").unlink(missing_ok=True)


def _told(rows: Iterator[Any], done: int, total: int, progress: Progress | None) -> Iterator[Any]:
    """The rows; the progress is reported between them."""
    for number, row in enumerate(rows, start=done + 1):
        yield row
        if progress is not None and number % _ROWS == 0:
            progress(number, total)
