"""Several processes on one port (`--workers`), compared with one process in the same run.

The load takes a core, so that two processes never have two cores for themselves on a machine of two. Therefore all processes of a server
share one core, which they keep busy, and the processor time of the busiest one is measured: as many requests as it allows a second are
answered where each process has a core.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from tests.benchmarks.load import run
from tests.benchmarks.objects import creates, gadgets, install
from tests.benchmarks.processes import Process, kcp
from tests.benchmarks.row import Row

_OBJECTS: Final = 5_000
_CONNECTIONS: Final = 32
_ROUNDS: Final = 5


async def workers_row(directory: Path) -> AsyncIterator[Row]:
    """GET and list with one process and with two, in turns, on TLS; and the memory of further processes."""
    with kcp(directory / "one", plain=False) as one, kcp(directory / "three", "--workers", "3", plain=False) as three:
        two_more = (_proportional(three) - _proportional(one)) // 2
        yield Row("memory of each further process, at rest", f"{two_more >> 20} MB", f"{_proportional(one) >> 20} MB", "", "<= 45 MB")
    with kcp(directory / "one", plain=False) as one, kcp(directory / "two", "--workers", "2", plain=False) as two:
        names = [f"g{number:05}" for number in range(_OBJECTS)]
        for server in (one, two):
            await install(server.target, "a")
            await run(server.target, creates(server.target, gadgets("a"), iter(names)), connections=64, expect=b" 201 ")
        rows: list[tuple[str, list[str], int]] = [
            ("GET of one 1 KB object", [f"{gadgets('a')}/g00001"], 5_000),
            ("GET of 5,000 objects in turn", [f"{gadgets('a')}/{name}" for name in names], 5_000),
            ("list of 100 of 5,000", [f"{gadgets('a')}?limit=100"], 1_500),
            ("list of 5,000, whole", [gadgets("a")], 100),
        ]
        for name, paths, count in rows:
            single, busiest = [], []
            for _ in range(_ROUNDS):
                single.append(max(await _used(one, [one.process.pid], paths, count)))
                busiest.append(max(await _used(two, _forked(two), paths, count)))
            alone, together = min(single), min(busiest)
            yield Row(f"{name}, 2 processes", f"{1 / together:,.0f}/s", f"{1 / alone:,.0f}/s", f"{alone / together:.2f}x", ">= 1.7x")
        beyond = _proportional(two) - _proportional(one)
        yield Row("memory of a second process, after these", f"{beyond >> 20} MB", f"{_proportional(one) >> 20} MB", "", "")


async def _used(server: Process, pids: Sequence[int], paths: Sequence[str], count: int) -> list[float]:
    """The seconds of processor time of each process, divided by the number of requests."""
    heads = [server.target.head("GET", path) for path in paths]
    before = [_cpu_seconds(pid) for pid in pids]
    await run(server.target, ((head, b"") for head in islice(cycle(heads), count)), connections=_CONNECTIONS)
    return [(_cpu_seconds(pid) - then) / count for pid, then in zip(pids, before, strict=True)]


def _forked(server: Process) -> list[int]:
    """The processes of a server, the owner of the store first."""
    pid = server.process.pid
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


def _proportional(server: Process) -> int:
    """Bytes of memory of all processes of a server. What they share counts once."""
    total = 0
    for pid in (server.process.pid, *_forked(server)):
        match = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        assert match is not None
        total += int(match[1]) << 10
    return total


WORKER_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {"workers": workers_row}
