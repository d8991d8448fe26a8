"""The row about checksums of pages: reading a database file with checksums, compared with reading it without."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from kcp_py.storage.contract import Put
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.checksums import connect
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.row import Row

_OBJECTS: Final = 20_000
_AT_ONCE: Final = 500
_ROUNDS: Final = 7


def _best(path: str, connection: Callable[[str], apsw.Connection]) -> float:
    """Seconds of CPU for reading all values of a file once, each time by a connection that has read nothing yet."""
    best = float("inf")
    for _ in range(_ROUNDS):
        with closing(connection(path)) as opened:
            start = time.process_time()
            opened.execute("SELECT max(value) FROM value").fetchall()
            best = min(best, time.process_time() - start)
    return best


async def checksum_row(directory: Path) -> AsyncIterator[Row]:
    """The pages of 20,000 objects of 1 KB."""
    path = directory / "checksums.db"
    async with SQLiteStorage(path) as storage:
        for first in range(0, _OBJECTS, _AT_ONCE):
            puts = [Put(f"/items/{number:06d}", KILOBYTE.encode()) for number in range(first, first + _AT_ONCE)]
            await storage.transact([], puts)
    checked, unchecked = _best(str(path), connect), _best(str(path), apsw.Connection)
    pages = path.stat().st_size // 4096
    yield Row(
        "read pages with checksums",
        f"{checked / pages * 1e6:.1f} us a page",
        f"{unchecked / pages * 1e6:.1f} us a page",
        f"{checked / unchecked:.2f}",
        "",
        f"{pages:,} pages",
    )


CHECKSUM_ROWS: Final = {"checksums": checksum_row}
