"""Pages of items from one snapshot, also as they were at an older revision: the writes since then are undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any, Final

import apsw

from kcp_py.storage.contract import CompactedError, KeyValue, fitting
from kcp_py.storage.sqlite.errors import is_damage
from kcp_py.storage.sqlite.salvage import Limit
from kcp_py.storage.sqlite.schema import ORDINAL_BITS, ORDINAL_MASK, last_seq
from kcp_py.storage.sqlite.state import fetch

_ROWS: Final = 64
"""Rows read between two checks of the clock."""
BOUNDED_ROWS: Final = 16
"""Rows read between two checks of the clock for a page that is bounded in bytes, and of keys that are not next to each other. Large values
may be read without need, and each row may take a tenth of a millisecond on the disk."""
LONGEST_TURN: Final = 0.002
"""Seconds for which a range blocks the event loop."""
_SCANNED: Final = 2_000
"""Writes examined before the read yields."""

# The beginning of statements for items.
ITEM: Final = f"""
    SELECT c.key, v.value, c.seq >> {ORDINAL_BITS}, c.create_revision FROM current c CROSS JOIN value v ON v.seq = c.seq
"""  # noqa: S608 - made of constants
_RANGE: Final = ITEM + "WHERE c.key >= ? AND c.key < ? ORDER BY c.key LIMIT ?"
_KEYS: Final = f"""
    SELECT key, x'', seq >> {ORDINAL_BITS}, create_revision FROM current WHERE key >= ? AND key < ? ORDER BY key LIMIT ?
"""  # noqa: S608 - made of constants
_BOUNDARY: Final = "SELECT seq FROM history WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT 1 OFFSET ?"
_WRITES: Final = """
    SELECT key, previous, create_revision, deleted FROM history
    WHERE seq > ? AND seq <= ? AND key >= ? AND key < ? ORDER BY seq
"""
_VALUE: Final = "SELECT value FROM value WHERE seq = ?"

key_value: Final[Callable[[Any], KeyValue]] = partial(tuple.__new__, KeyValue)
"""A row of `ITEM` as an item."""


class Undone:
    """The writes that a range at an old revision must undo: the keys written since, and their values then."""

    def __init__(self) -> None:
        self.then: dict[str, tuple[int, int]] = {}
        """key -> (seq of its value then, or 0 if it did not exist; create revision)."""
        self.now: dict[str, bool] = {}
        """key -> whether it exists now."""
        self.existing: list[str] = []
        """The keys of `then` that existed, in order."""
        self.merged = 0
        """The number of `existing` that were returned."""

    def surplus_after(self, last: str) -> int:
        """The difference between the numbers of keys after `last` then and now."""
        return sum(key > last for key in self.existing) - sum(exists and key > last for key, exists in self.now.items())


NOTHING: Final = Undone()
"""For the present state."""


async def undo(connection: apsw.Connection, revision: int, until: int, lower: str, upper: str | bytes) -> Undone:
    """The writes after a revision until another one, of the keys from `lower` on and before `upper`.

    Raises:
        CompactedError: a part of the history is damaged.
        apsw.Error: the history cannot be read.
    """
    undone = Undone()
    after, end = last_seq(revision), last_seq(until)
    while after < end:
        bound = boundary(connection, after, end)
        try:
            rows = fetch(connection, _WRITES, after, bound, lower, upper)
        except apsw.Error as error:
            if is_damage(error):
                raise CompactedError(revision, until) from error  # the old revision is lost, but the current one may be readable
            raise
        for key, previous, create_revision, deleted in rows:
            undone.then.setdefault(key, (previous, create_revision))
            undone.now[key] = not deleted
        after = bound
        await asyncio.sleep(0)
    undone.existing = sorted(key for key, (previous, _) in undone.then.items() if previous)
    return undone


_MOST_ROWS: Final = 2**31
"""The maximum limit of a page: SQLite accepts 64 bits, and one row after the page is read as well."""


async def items_of(
    connection: apsw.Connection, lower: str, upper: str | bytes, limits: Limit, undone: Undone, *, keys_only: bool
) -> tuple[list[KeyValue], bool]:
    """The items of a page, and whether more follow."""
    limit = min(limits.items, _MOST_ROWS)
    wanted = limit + 1 if limit > 0 else -1
    # A page at an old revision may skip as many current keys as were written since.
    rows = connection.execute(_KEYS if keys_only else _RANGE, (lower, upper, wanted + len(undone.then) if wanted > 0 else -1))
    items: list[KeyValue] = []
    counted = size = 0
    bounded = wanted > 0 and not keys_only
    together = 1 if bounded else _ROWS
    turn = perf_counter() + LONGEST_TURN
    while True:
        chunk = list(islice(rows, together))
        ended = len(chunk) < together
        if undone.then:
            _merge(connection, items, chunk, undone, ended=ended, keys_only=keys_only)
        else:
            items.extend(map(key_value, chunk))
        if bounded:
            size += sum([len(item.value) for item in items[counted:]])
            counted = len(items)
            # The number that is likely to fit, by the mean size of the previous rows.
            together = min(BOUNDED_ROWS, max(1, (limits.bytes - size) * counted // (size or 1)))
        ended = ended or 0 < wanted <= len(items)
        if ended or size > limits.bytes:
            taken = len(items) if size <= limits.bytes else fitting(items, limits.bytes)
            taken = min(taken, limit) if limit > 0 else taken
            more = taken < len(items) or (not ended and (bool(undone.then) or next(rows, None) is not None))
            rows.close()
            return items[:taken], more
        if perf_counter() > turn:
            await asyncio.sleep(0)
            turn = perf_counter() + LONGEST_TURN


def _merge(
    connection: apsw.Connection,
    items: list[KeyValue],
    chunk: Iterable[tuple[Any, ...]],
    undone: Undone,
    *,
    ended: bool,
    keys_only: bool,
) -> None:
    """Append to `items` the old state of the keys in `chunk`, or of all remaining keys if it is the last chunk."""
    existing = undone.existing
    for row in chunk:
        while undone.merged < len(existing) and existing[undone.merged] < row[0]:
            items.append(_restored(connection, existing[undone.merged], undone, keys_only=keys_only))
            undone.merged += 1
        if row[0] not in undone.then:
            items.append(key_value(row))
    if ended:
        items.extend(_restored(connection, key, undone, keys_only=keys_only) for key in existing[undone.merged :])


def _restored(connection: apsw.Connection, key: str, undone: Undone, *, keys_only: bool) -> KeyValue:
    seq, create_revision = undone.then[key]
    value = b""
    if not keys_only:
        ((value,),) = fetch(connection, _VALUE, seq)
    return KeyValue(key, value, seq >> ORDINAL_BITS, create_revision)


def boundary(connection: apsw.Connection, after: int, until: int) -> int:
    """The end of a slice of writes after `after`: the end of a revision, at most about `_SCANNED` writes later."""
    rows = fetch(connection, _BOUNDARY, after, until, _SCANNED)
    return min(int(rows[0][0]) | ORDINAL_MASK, until) if rows else until
