"""Measurements of a server with a fleet. Each function returns rows of two texts: a work, and its figures."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import orjson

from tests.benchmarks.load import Connection, EventDelays, Result, Target, run
from tests.benchmarks.processes import Process
from tests.fleet.content import Content, create_clusters

_PROBE_SECONDS: Final = 0.02
"""Between two requests of the client that measures how long others wait."""

Row = tuple[str, str]


def percentiles(result: Result) -> str:
    """The usual three, in milliseconds."""
    return f"p50 {result.percentile(0.5):.1f}, p99 {result.percentile(0.99):.1f}, longest {result.percentile(1):.1f} ms"


def megabytes(size: float) -> str:
    """With its unit."""
    return f"{size / 1e6:,.0f} MB"


def forget_pages(directory: Path) -> None:
    """Drop the files of a stopped server from the page cache of the system, as after a restart of the machine."""
    for path in directory.glob("kcp.db*"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@dataclass
class Others:
    """What another client sees while something else is measured."""

    latencies: list[float] = field(default_factory=list)
    peak: int = 0


@asynccontextmanager
async def others(ours: Process, path: str) -> AsyncIterator[Others]:
    """A client that reads one object all the time."""
    seen = Others()
    connection = await ours.target.connect()
    head = ours.target.head("GET", path)

    ended = False

    async def ask() -> None:
        while not ended:
            start = time.perf_counter()
            await connection.request(head)
            seen.latencies.append(time.perf_counter() - start)
            seen.peak = max(seen.peak, ours.resident)
            await asyncio.sleep(_PROBE_SECONDS)

    task = asyncio.create_task(ask())
    try:
        yield seen
    finally:
        ended = True
        await task
        connection.close()


async def at_rest(ours: Process, *, seconds: float = 10) -> list[Row]:
    """Resident memory and the work in the background."""
    before = ours.cpu_seconds
    await asyncio.sleep(seconds)
    share = (ours.cpu_seconds - before) / seconds
    return [("resident at rest", megabytes(ours.resident)), ("processor at rest", f"{share:.1%} of a core")]


async def creation(ours: Process, names: Sequence[str], content: Content) -> list[Row]:
    """Create clusters by requests."""
    before, start = ours.cpu_seconds, time.perf_counter()
    made, defined, filled = await create_clusters(ours.target, names, content)
    seconds, cpu = time.perf_counter() - start, ours.cpu_seconds - before
    rows = [(f"create {len(names):,} clusters", f"{made.rate:,.0f}/s, {percentiles(made)}")]
    if content.crds:
        rows.append((f"create {len(defined.latencies):,} CRDs in them", f"{defined.rate:,.0f}/s, {percentiles(defined)}"))
    if content.objects and content.crds:
        rows.append((f"create {len(filled.latencies):,} objects in them", f"{filled.rate:,.0f}/s, {percentiles(filled)}"))
    return [*rows, ("create, all together", f"{len(names) / seconds:,.1f} clusters/s, {cpu / len(names) * 1e3:.2f} ms of CPU for each")]


async def touch(ours: Process, names: Sequence[str], content: Content) -> list[Row]:
    """Read something in clusters that were not used before, one by one."""
    resident = ours.resident
    if content.crds:
        paths: Iterator[str] = (content.path(name, at % content.crds) for at, name in enumerate(names))
    else:
        paths = (f"/clusters/{name}/api/v1/namespaces/default" for name in names)
    before = ours.cpu_seconds
    first = await run(ours.target, ((ours.target.head("GET", path), b"") for path in paths), connections=1)
    cpu = (ours.cpu_seconds - before) / len(names)
    grown = ours.resident - resident
    return [
        (f"first read in {len(names):,} clusters", f"{percentiles(first)}, {cpu * 1e3:.2f} ms of CPU"),
        ("resident after these", f"{megabytes(ours.resident)} (+{grown / len(names) / 1e3:.1f} KB each)"),
    ]


async def pages(ours: Process, content: Content, probe: str) -> list[Row]:
    """The first page of each resource over all clusters, twice."""
    rows: list[Row] = []
    for text in ("first", "again"):
        async with others(ours, probe) as seen:
            before, start = ours.cpu_seconds, time.perf_counter()
            latencies = []
            for number in range(content.crds):
                at = time.perf_counter()
                await _status(ours.target, f"{content.path('*', number)}?limit=500")
                latencies.append(time.perf_counter() - at)
            seconds, cpu = time.perf_counter() - start, ours.cpu_seconds - before
        longest = max(seen.latencies, default=0.0) * 1e3
        rows.append(
            (
                f"pages of 500 of {content.crds} resources over all clusters, {text}",
                f"{seconds:.2f} s, the first {latencies[0] * 1e3:.0f} ms, {cpu:.2f} s of CPU; others at most {longest:.0f} ms",
            )
        )
    rows.append(("resident after these", megabytes(ours.resident)))
    return rows


async def discovery(ours: Process, probe: str) -> list[Row]:
    """Discovery over all clusters, twice."""
    rows = []
    for text in ("first", "again"):
        async with others(ours, probe) as seen:
            before, start = ours.cpu_seconds, time.perf_counter()
            await _status(ours.target, "/clusters/*/apis")
            seconds, cpu = time.perf_counter() - start, ours.cpu_seconds - before
        longest = max(seen.latencies, default=0.0) * 1e3
        figure = f"{seconds * 1e3:,.0f} ms, {cpu:.2f} s of CPU; others at most {longest:.0f} ms"
        rows.append((f"discovery over all clusters, {text}", figure))
    return [*rows, ("resident after these", megabytes(ours.resident))]


async def _status(target: Target, path: str) -> bytes:
    answer = await target.one("GET", path)
    if b" 200 " not in answer[:16]:
        raise RuntimeError(answer[:400].decode(errors="replace"))
    return answer


async def whole_list(ours: Process, path: str, probe: str) -> list[Row]:
    """A list over all clusters without a limit, read as it comes."""
    received = 0

    class Reader(asyncio.Protocol):
        def __init__(self) -> None:
            self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._tail = b""
            self._length = 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            transport.write(ours.target.head("GET", path))  # type: ignore[attr-defined]

        def data_received(self, data: bytes) -> None:
            nonlocal received
            if not received and (found := re.search(rb"\r\ncontent-length: (\d+)\r\n", data, re.IGNORECASE)):
                # Short lists are not sent in chunks.
                self._length = data.index(b"\r\n\r\n") + 4 + int(found[1])
            received += len(data)
            self._tail = (self._tail + data)[-16:]
            ended = received >= self._length if self._length else self._tail.endswith(b"0\r\n\r\n")
            if ended and not self.ended.done():
                self.ended.set_result(None)

        def connection_lost(self, exc: Exception | None) -> None:
            if not self.ended.done():
                self.ended.set_exception(exc or ConnectionResetError("the list was not whole"))

    async with others(ours, probe) as seen:
        before, start = ours.cpu_seconds, time.perf_counter()
        transport, reader = await asyncio.get_running_loop().create_connection(Reader, "127.0.0.1", ours.target.port)
        await reader.ended
        transport.close()
        seconds, cpu = time.perf_counter() - start, ours.cpu_seconds - before
    result = Result(seconds, seen.latencies)
    return [
        ("list over all clusters, whole", f"{seconds:.1f} s, {cpu:.1f} s of CPU, {megabytes(received)}"),
        ("others during this list", percentiles(result)),
        ("resident during this list, at most", megabytes(seen.peak)),
    ]


async def watch(ours: Process, content: Content, names: Sequence[str], *, rate: float = 100) -> list[Row]:
    """One watch over all clusters for each resource, and the time from sending a write in one of them to its event."""
    run_id = time.time_ns()
    events = EventDelays()
    kinds = range(content.crds)
    start = time.perf_counter()
    version = orjson.loads((await _status(ours.target, f"{content.path('*', 0)}?limit=1")).partition(b"\r\n\r\n")[2])["metadata"][
        "resourceVersion"
    ]
    streams = [
        await ours.target.stream(f"{content.path('*', number)}?watch=true&resourceVersion={version}", events.on_line) for number in kinds
    ]
    opened = time.perf_counter() - start
    before = ours.cpu_seconds

    async def send(connection: Connection, at: int, name: str) -> None:
        body = content.object(at % content.crds, f"w{run_id}-{at}")
        head = ours.target.head("POST", content.path(name, at % content.crds), len(body))
        events.sent[b"%d-%d" % (run_id, at)] = time.perf_counter()
        answer = await connection.request(head, body)
        if b" 201 " not in answer[:16]:
            raise RuntimeError(answer[:400].decode(errors="replace"))

    connections = [await ours.target.connect() for _ in range(8)]
    begin = time.perf_counter()
    for at in range(0, len(names), 8):
        await asyncio.sleep(begin + at / rate - time.perf_counter())
        await asyncio.gather(
            *(send(connection, at + n, name) for n, (connection, name) in enumerate(zip(connections, names[at:], strict=False)))
        )
    lost = await events.wait()
    cpu = (ours.cpu_seconds - before) / len(names)
    for stream in streams:
        assert stream.transport is not None
        stream.transport.abort()
    for connection in connections:
        connection.close()
    return [
        (f"open {content.crds} watches over all clusters", f"{opened * 1e3:.0f} ms"),
        (
            f"event of a write in one of {len(names):,} clusters",
            f"{percentiles(Result(1, events.delays))}, {cpu * 1e3:.2f} ms of CPU{lost}",
        ),
    ]


async def deletion(ours: Process, names: Sequence[str], probe: str) -> list[Row]:
    """Delete clusters, until the last one is gone."""
    path = "/clusters/{}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    async with others(ours, probe) as seen:
        before, start = ours.cpu_seconds, time.perf_counter()
        await run(ours.target, ((ours.target.head("DELETE", path.format(name)), b"") for name in names), connections=16)
        remaining: Sequence[str] = names
        while remaining:
            await asyncio.sleep(0.05)
            remaining = [name for name in remaining if b" 200 " in (await ours.target.one("GET", path.format(name)))[:16]]
        seconds, cpu = time.perf_counter() - start, ours.cpu_seconds - before
    result = Result(seconds, seen.latencies)
    figure = f"{seconds:.1f} s, {len(names) / seconds:,.0f}/s, {cpu / len(names) * 1e3:.2f} ms of CPU for each"
    return [(f"delete {len(names):,} clusters", figure), ("others during the deletion", percentiles(result))]


def sample(random: Random, count: int, most: int, name: Callable[[int], str]) -> list[str]:
    """Names of different clusters, drawn by lot."""
    return [name(number) for number in random.sample(range(count), min(count, most))]
