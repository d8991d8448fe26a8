"""Reads the undamaged part of a range with a damaged page: value by value, and the keys from both ends.

It takes several times as long as a range, and is used only after a range has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import apsw

from kcp_py.storage.contract import DamagedError, KeyValue, RangeResult
from kcp_py.storage.sqlite.errors import is_damage
from kcp_py.storage.sqlite.schema import ORDINAL_BITS
from kcp_py.storage.sqlite.state import fetch

_KEYS: Final = "SELECT key, seq, create_revision FROM current WHERE key >= ? AND key < ? ORDER BY key"
_VALUE: Final = "SELECT value FROM value WHERE seq = ?"


class Limit(NamedTuple):
    """The bounds of a page."""

    items: int
    """The `limit` of `Storage.range`."""
    bytes: int
    """The `max_bytes` of `Storage.range`."""


def salvage(
    connection: apsw.Connection,
    bounds: tuple[str, str | bytes],
    *,
    limit: Limit,
    revision: int,
    undone: Mapping[str, tuple[int, int]],
    keys_only: bool,
) -> DamagedError:
    """The answer of a range that cannot be read completely.

    Args:
        connection: a connection with or without a transaction, which a damaged page ends.
        bounds: the bounds of the keys, see `schema.key_bounds`.
        limit: as in `Storage.range`.
        revision: the revision of the read.
        undone: the keys written since, with their old state: (seq, or 0 if the key did not exist, create revision).
        keys_only: as in `Storage.range`.
    """
    rows = sorted(
        [row for row in _entries(connection, bounds) if row[0] not in undone]
        + [(key, seq, create_revision) for key, (seq, create_revision) in undone.items() if seq]
    )
    items: list[KeyValue] = []
    damaged: list[str] = []
    size = seen = 0
    for key, seq, create_revision in rows:
        if limit.items and (len(items) == limit.items or (items and size > limit.bytes)):
            break
        seen += 1
        value = b"" if keys_only else _value(connection, seq)
        if value is None:
            damaged.append(key)
            continue
        size += len(value)
        items.append(KeyValue(key, value, seq >> ORDINAL_BITS, create_revision))
    left = len(rows) - seen
    return DamagedError(damaged, RangeResult(items, revision, left > 0, len(items) + left))


def _entries(connection: apsw.Connection, bounds: tuple[str, str | bytes]) -> list[Any]:
    """The readable keys."""
    forward, whole = _until_damage(connection, _KEYS, bounds)
    if whole:
        return forward
    backward, _ = _until_damage(connection, f"{_KEYS} DESC", (forward[-1][0] + "\x00" if forward else bounds[0], bounds[1]))
    return forward + backward[::-1]


def _until_damage(connection: apsw.Connection, statement: str, bounds: tuple[str, str | bytes]) -> tuple[list[Any], bool]:
    rows: list[Any] = []
    try:
        rows.extend(connection.execute(statement, bounds))
    except apsw.Error as error:
        if not is_damage(error):
            raise
        return rows, False
    return rows, True


def _value(connection: apsw.Connection, seq: int) -> bytes | None:
    try:
        rows = fetch(connection, _VALUE, seq)
    except apsw.Error as error:
        if not is_damage(error):
            raise
        return None
    return rows[0][0] if rows else None
