"""Numbers of keys, counted in steps between which others have their turns."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import apsw

from kcp_py.storage.sqlite.state import fetch

_COUNTED: Final = 10_000
"""Keys counted before the count yields."""

_FROM: Final = "SELECT count(*), max(key) FROM (SELECT key FROM current WHERE key >= ? AND key < ? ORDER BY key LIMIT ?)"
_BEHIND: Final = "SELECT count(*), max(key) FROM (SELECT key FROM current WHERE key > ? AND key < ? ORDER BY key LIMIT ?)"


async def count_keys(connection: apsw.Connection, lower: str, upper: str | bytes, *, behind: bool = False, most: int = sys.maxsize) -> int:
    """The number of keys in a snapshot, about 0.1 us for each.

    Args:
        connection: has a transaction, which is the snapshot.
        lower: the first key.
        upper: the key behind the last one.
        behind: whether `lower` itself is left out.
        most: no more keys are counted.

    Raises:
        apsw.Error: the keys cannot be read.
    """
    statement = _BEHIND if behind else _FROM
    total = 0
    while total < most:
        wanted = min(_COUNTED, most - total)
        counted: int
        ((counted, last),) = fetch(connection, statement, lower, upper, wanted)
        total += counted
        if counted < wanted:
            break
        lower, statement = last, _BEHIND
        await asyncio.sleep(0)
    return total
