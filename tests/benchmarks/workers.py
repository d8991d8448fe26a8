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
from contextlib import AbstractContextManager
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from tests.benchmarks.load import run
from tests.benchmarks.objects import creates, gadgets, install
from tests.benchmarks.processes import Process, kcp
from tests.benchmarks.row import Row

_NAMES: Final = [f"g{number:05}" for number in range(5_000)]
_WHOLE: Final = "list of 5,000, whole"
_SERVERS: Final = {"one": (), "other": (), "two": ("--workers", "2"), "three": ("--workers", "3")}
_CONNECTIONS: Final = 32
_ROUNDS: Final = 5
_TRIMMED_SECONDS: Final = 25
"""Until free memory was returned to the system."""


async def workers_row(directory: Path) -> AsyncIterator[Row]:
    """GET and list with one process and with two, in turns, on TLS; and the memory of further processes, at rest and after the requests."""
    # The first start of a server compiles modules and makes certificates, which leaves memory behind.
    for name, arguments in _SERVERS.items():
        with kcp(directory / name, *arguments, plain=False):
            pass

    def started(name: str) -> AbstractContextManager[Process]:
        return kcp(directory / name, *_SERVERS[name], plain=False)

    with started("one") as one, started("three") as three:
        yield _memory("at rest, of three", three, one, further=2)
    with started("one") as one, started("two") as two:
        yield _memory("at rest, of two", two, one, further=1)
        with started("other") as other:
            for server in (one, two, other):
                await install(server.target, "a")
                await run(server.target, creates(server.target, gadgets("a"), iter(_NAMES)), connections=64, expect=b" 201 ")
            async for row in _rates(one, two, other):
                yield row
        yield _memory("of two, at the end of these", two, one, further=1)
        await asyncio.sleep(_TRIMMED_SECONDS)
        yield _memory(f"of two, {_TRIMMED_SECONDS} s later", two, one, further=1)


async def _rates(one: Process, two: Process, other: Process) -> AsyncIterator[Row]:
    """The rates of a server of one process, of one of two processes, and for whole lists of two servers of one process."""
    rows: list[tuple[str, list[str], int]] = [
        ("GET of one 1 KB object", [f"{gadgets('a')}/g00001"], 5_000),
        ("GET of 5,000 objects in turn", [f"{gadgets('a')}/{name}" for name in _NAMES], 5_000),
        ("list of 100 of 5,000", [f"{gadgets('a')}?limit=100"], 1_500),
        (_WHOLE, [gadgets("a")], 100),
    ]
    for name, paths, count in rows:
        subjects: dict[str, list[Process]] = {"alone": [one], "2 processes": [two]}
        if name == _WHOLE:
            # What two processes could reach that share nothing but the machine.
            subjects["2 servers of one process"] = [one, other]
        used: dict[str, list[float]] = {subject: [] for subject in subjects}
        for _ in range(1 + _ROUNDS):
            for subject, servers in subjects.items():
                used[subject].append(await _busiest(servers, paths, count))
        # The first round fills caches and memory.
        alone, *others = ((subject, min(seconds[1:])) for subject, seconds in used.items())
        for subject, seconds in others:
            wanted = ">= 1.7x" if subject == "2 processes" else ""
            yield Row(f"{name}, {subject}", f"{1 / seconds:,.0f}/s", f"{1 / alone[1]:,.0f}/s", f"{alone[1] / seconds:.2f}x", wanted)


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


async def _busiest(servers: Sequence[Process], paths: Sequence[str], count: int) -> float:
    """The seconds of processor time of the busiest process, divided by the number of requests. The servers get as many each."""
    pids = [pid for server in servers for pid in _forked(server) or [server.process.pid]]
    before = [_cpu_seconds(pid) for pid in pids]
    await asyncio.gather(*(_load(server, paths, count // len(servers), _CONNECTIONS // len(servers)) for server in servers))
    return max(_cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True)) / count


async def _load(server: Process, paths: Sequence[str], count: int, connections: int) -> None:
    heads = [server.target.head("GET", path) for path in paths]
    await run(server.target, ((head, b"") for head in islice(cycle(heads), count)), connections=connections)


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
