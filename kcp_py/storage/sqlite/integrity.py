"""Checks a database file for damage, whether a server runs on it or not."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from kcp_py.storage.sqlite import checksums
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, DatabaseFileError
from kcp_py.storage.sqlite.header import check_header, check_size
from kcp_py.storage.sqlite.log import read_log
from kcp_py.storage.sqlite.salvage import Limit, salvage
from kcp_py.storage.sqlite.schema import CHECKED_FORMAT, key_bounds

_MOST_PROBLEMS = 20
_LOOKS = 3


def integrity_check(path: str | Path) -> list[str]:
    """The errors of the database, one line each. Reads all of it (about a second per GB) and changes nothing.

    Every wrong bit in the file is found, including those in unused pages. Pages that the write-ahead log replaces and data after the end of
    the log are not checked, because SQLite overwrites them before it reads them.

    Args:
        path: the file. It may be in use.
    """
    real = os.path.realpath(path)
    if not Path(real).is_file():
        return [f"{real} does not exist"]
    try:
        version = check_header(real, in_use=True)
        problems = _damaged_log_and_pages(real, checked=version >= CHECKED_FORMAT)
        connection = checksums.connect(real, flags=apsw.SQLITE_OPEN_READONLY)
    except (DatabaseFileError, OSError) as error:
        return [str(error).removeprefix(f"{real} is ").removeprefix(f"{real} ")]
    except apsw.Error as error:
        return [f"{real} cannot be opened: {error}"]
    try:
        connection.set_busy_timeout(5000)
        return problems + (_damaged_keys(connection) if problems else _problems(connection))
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [*problems, f"damaged: {error}"]
    except apsw.Error as error:
        return [*problems, f"cannot be read: {error}"]
    finally:
        connection.close()


def _damaged_log_and_pages(path: str, *, checked: bool) -> list[str]:
    """The errors of the log and of pages that a second check confirms, because a server may be writing."""
    found: list[str] = []
    for _ in range(_LOOKS):
        log = read_log(path)
        again = [text for text in (log.damage, log.doubt) if text]
        if not again:
            try:
                check_size(path, log, in_use=True)
            except CorruptDatabaseError as error:
                again.append(str(error).removeprefix(f"{path} is "))
            if checked:
                wrong = [number for number in checksums.damaged_pages(path) if number not in log.pages]
                again += [f"page {number} is damaged: its checksum is wrong" for number in wrong[:_MOST_PROBLEMS]]
        found = [text for text in again if text in found] if found else again
        if not found:
            break
    return found


def _damaged_keys(connection: apsw.Connection) -> list[str]:
    """Some of the keys that cannot be read."""
    connection.execute("BEGIN")
    damage = salvage(connection, key_bounds(""), limit=Limit(0, 0), revision=0, undone={}, keys_only=False)
    return [f"the value of {key} cannot be read" for key in damage.keys[:_MOST_PROBLEMS]]


def _problems(connection: apsw.Connection) -> list[str]:
    problems = [text for (text,) in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})") if text != "ok"]
    if problems:
        return problems
    connection.execute("BEGIN")
    for label, query in _RULES:
        problems += [f"{label}: {row[0]}" for row in connection.execute(f"{query} LIMIT {_MOST_PROBLEMS}")]
    return problems


_RULES = (
    ("a key without a value", "SELECT key FROM current WHERE seq NOT IN (SELECT seq FROM value)"),
    (
        "a write without its value",
        "SELECT seq FROM history WHERE NOT deleted AND seq NOT IN (SELECT seq FROM value)",
    ),
    (
        "a write whose predecessor's value is gone",
        "SELECT seq FROM history WHERE previous AND previous NOT IN (SELECT seq FROM value)",
    ),
    (
        "a key whose last write is not its newest",
        "SELECT h.key FROM history h JOIN current c ON c.key = h.key WHERE h.seq > c.seq",
    ),
    (
        "a key that its last write deleted",
        "SELECT h.key FROM history h JOIN current c ON c.key = h.key WHERE h.seq = c.seq AND h.deleted",
    ),
)
