"""Checks a database file for damage, whether a server runs on it or not."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from kcp_py.storage.sqlite.schema import APPLICATION_ID, FORMAT

_MOST_PROBLEMS = 20


def integrity_check(path: str | Path) -> list[str]:
    """What is wrong with the database, one line each; empty for nothing. Reads all of it (about a second per GB) and changes nothing.

    Args:
        path: the file. It may be in use.
    """
    real = os.path.realpath(path)
    if not Path(real).is_file():
        return [f"{real} does not exist"]
    try:
        connection = apsw.Connection(real, flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error as error:
        return [f"{real} cannot be opened: {error}"]
    try:
        connection.set_busy_timeout(5000)
        return _problems(connection)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [f"damaged: {error}"]
    except apsw.Error as error:
        return [f"cannot be read: {error}"]
    finally:
        connection.close()


def _problems(connection: apsw.Connection) -> list[str]:
    ((application,),) = connection.execute("PRAGMA application_id")
    if application != APPLICATION_ID:
        return ["a database of another program"]
    ((version,),) = connection.execute("PRAGMA user_version")
    if version > FORMAT:
        return [f"written by a newer version (format {version}; this version reads up to {FORMAT})"]
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
