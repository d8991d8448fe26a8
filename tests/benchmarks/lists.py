"""Lists of 10,000 objects, and how long they block the event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import COLUMNS, config_map, creates, gadgets, install
from tests.benchmarks.processes import Process, bare, kcp
from tests.benchmarks.row import Row

_REPEATED: Final = 20
"""Lists of which the processor time is the mean: the clock of processes has ticks of 10 ms."""


async def list_row(directory: Path) -> AsyncIterator[Row]:
    """10,000 objects of 1 KB, whole and in pages, with concurrent small requests that show how long the event loop is blocked.

    A repeated list is answered from the cached spans, except for the objects around a later write. So
    three cases are measured: nothing was written, one object was, and so many were that everything is read from the store.
    """
    with kcp(directory / "list") as ours, bare(directory) as other:
        await install(ours.target, "a")
        names = [f"g{number:05}" for number in range(10_000)]
        await run(ours.target, creates(ours.target, gadgets("a"), iter(names)), connections=64, expect=b" 201 ")
        for limit in (0, 500):
            for case, written in (("unchanged", []), ("one object written between", names[5_000:5_001]), ("all read", names[::200])):
                mine, theirs, longest = [], [], 0.0
                await _listed(ours.target, limit)
                for _ in range(5):
                    await _replace(ours.target, written)
                    seconds, size, held = await _listed(ours.target, limit)
                    mine.append(seconds)
                    longest = max(longest, held)
                    theirs.append(await _sent(other.target, size, 10_000 // limit if limit else 1))
                name = f"list of 10,000 x 1 KB, {f'pages of {limit}' if limit else 'whole'}, {case}"
                ratio = f"{min(mine) / min(theirs):.1f}x"
                beside = f"slowest GET beside it {longest * 1e3:.0f} ms"
                yield Row(name, f"{min(mine) * 1e3:.0f} ms", f"{min(theirs) * 1e3:.0f} ms", ratio, "<= 3x, loop <= 50 ms", beside)


async def _replace(target: Target, names: list[str]) -> None:
    """Delete objects and create them again."""
    for name in names:
        await target.one("DELETE", f"{gadgets('a')}/{name}")
    await run(target, creates(target, gadgets("a"), iter(names)), connections=1, expect=b" 201 ")


async def _sent(target: Target, size: int, parts: int) -> float:
    """Seconds that the bare server takes for so many bytes, in so many answers."""
    connection = await target.connect()
    start = time.perf_counter()
    for _ in range(parts):
        await connection.request(target.head("GET", f"/fixed/{size // parts}"))
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


async def _listed(target: Target, limit: int) -> tuple[float, int, float]:
    """Seconds, bytes, and the slowest small request that was sent meanwhile."""
    done = threading.Event()
    slowest = 0.0

    def probe() -> None:
        # In a thread: the loop of the load is busy with what it is sent.
        nonlocal slowest
        head = target.head("GET", f"{gadgets('a')}/g00001")
        with socket.create_connection(("127.0.0.1", target.port)) as connection:
            while not done.wait(0.002):
                start = time.perf_counter()
                connection.sendall(head)
                connection.recv(65_536)
                slowest = max(slowest, time.perf_counter() - start)

    connection = await target.connect()
    beside = asyncio.create_task(asyncio.to_thread(probe))
    await asyncio.sleep(0.01)
    start = time.perf_counter()
    size = 0
    token = ""
    while True:
        query = f"?limit={limit}{f'&continue={token}' if token else ''}" if limit else ""
        body = (await connection.request(target.head("GET", gadgets("a") + query))).partition(b"\r\n\r\n")[2]
        size += len(body)
        token = body[:400].partition(b'"continue":"')[2].partition(b'"')[0].decode()
        if not token:
            break
    seconds = time.perf_counter() - start
    done.set()
    await beside
    connection.close()
    return seconds, size, slowest


async def selectors_row(directory: Path) -> AsyncIterator[Row]:
    """10,000 objects of 1 KB: with selectors, and in other forms. Processor time for one list, compared with the plain JSON list.

    Lists are repeated ones without writes between them, except for those that are read from the store after many writes. That of protobuf
    is of 10,000 config maps, which custom resources have not.
    """
    with kcp(directory / "selectors") as ours:
        await install(ours.target, "a", columns=COLUMNS)
        maps = "/clusters/a/api/v1/namespaces/default/configmaps"
        names = [f"g{number:05}" for number in range(10_000)]
        await run(ours.target, creates(ours.target, gadgets("a"), iter(names)), connections=64, expect=b" 201 ")
        await run(ours.target, creates(ours.target, maps, iter(names), _large_config_map), connections=64, expect=b" 201 ")
        plain = {path: await _processor_seconds(ours, path) for path in (gadgets("a"), maps)}
        for case, path, query, accept, wanted in _FORMS:
            mine = await _processor_seconds(ours, path + query, accept)
            ratio = f"{mine / plain[path]:.1f}x"
            yield Row(f"list of 10,000 x 1 KB, {case}, CPU", f"{mine * 1e3:.1f} ms", f"{plain[path] * 1e3:.1f} ms", ratio, wanted)
        for case, accept, wanted in (("plain JSON", "application/json", ""), ("as Table", _TABLE, "<= 60 ms"), *_COLD_METADATA):
            seconds = 0.0
            for _ in range(_READ_ANEW):
                await _replace(ours.target, names[::200])
                seconds += await _processor_seconds(ours, gadgets("a"), accept, times=1, warm=False)
            mine = seconds / _READ_ANEW
            ratio = f"{mine / plain[gadgets('a')]:.1f}x"
            name = f"list of 10,000 x 1 KB, {case}, all read, CPU"
            yield Row(name, f"{mine * 1e3:.1f} ms", f"{plain[gadgets('a')] * 1e3:.1f} ms", ratio, wanted)


_METADATA: Final = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_COLD_METADATA: Final = (("metadata only", f"application/json;{_METADATA}", "<= 60 ms"),)
_READ_ANEW: Final = 5
_FORMS: Final = (
    ("selector that matches none", gadgets("a"), "?labelSelector=app%3Dnone", "application/json", "<= 8 ms"),
    ("selector that matches all", gadgets("a"), "?labelSelector=app%3Dbench", "application/json", "<= 8 ms"),
    ("as Table", gadgets("a"), "", _TABLE, "<= 2x"),
    ("metadata only", gadgets("a"), "", f"application/json;{_METADATA}", ""),
    ("in protobuf", "/clusters/a/api/v1/namespaces/default/configmaps", "", "application/vnd.kubernetes.protobuf", "<= 60 ms"),
)


def _large_config_map(name: str) -> bytes:
    return config_map(name, "x" * 1_000)


async def _processor_seconds(
    ours: Process, path: str, accept: str = "application/json", *, times: int = _REPEATED, warm: bool = True
) -> float:
    head = ours.target.head("GET", path).replace(b"Accept: application/json\r\n", f"Accept: {accept}\r\n".encode())
    connection = await ours.target.connect()
    if warm:
        await connection.request(head)
    before = ours.cpu_seconds
    for _ in range(times):
        answer = await connection.request(head)
        assert b" 200 " in answer[:16], answer[:500]
    seconds = (ours.cpu_seconds - before) / times
    connection.close()
    return seconds


LIST_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "list": list_row,
    "selectors": selectors_row,
}
