"""Several processes on one port (`--workers`), compared with one process in the same run.

The load takes a core, so that two processes never have two cores for themselves on a machine of two. Therefore all processes of a server
share one core, which they keep busy, and the processor time of the busiest one is measured: as many requests as it allows a second are
answered where each process has a core.

The memory of a further process is that of all processes of a server, the supervisor included, without that of a server of one process
after the same requests, divided by the number of processes but one. It is the proportional set size: a page that several processes map
counts once in total.
"""

from __future__ import annotations

import asyncio
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
_TRIMMED_SECONDS: Final = 25
"""Until free memory was returned to the system."""


async def workers_row(directory: Path) -> AsyncIterator[Row]:
    """GET and list with one process and with two, in turns, on TLS; and the memory of further processes, at rest and after the requests."""
    with kcp(directory / "one", plain=False) as one, kcp(directory / "three", "--workers", "3", plain=False) as three:
        yield _memory("at rest, of three", three, one, further=2)
    with kcp(directory / "one", plain=False) as one, kcp(directory / "two", "--workers", "2", plain=False) as two:
        yield _memory("at rest, of two", two, one, further=1)
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
        yield _memory("of two, at the end of these", two, one, further=1)
        await asyncio.sleep(_TRIMMED_SECONDS)
        yield _memory(f"of two, {_TRIMMED_SECONDS} s later", two, one, further=1)


def _memory(when: str, server: Process, one: Process, *, further: int) -> Row:
    """What each process takes beyond the first.

    Args:
        when: in the name of the row.
        server: of several processes.
        one: of one process, after the same requests.
        further: the number of processes beyond the first.
    """
    alone = _proportional(one)
    each = (_proportional(server) - alone) // further
    return Row(f"memory of each further process, {when}", f"{each >> 20} MB", f"{alone >> 20} MB", "", "<= 45 MB")


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
