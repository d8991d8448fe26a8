"""The start of a server and of the program, and an idle server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from itertools import count, islice
from pathlib import Path
from typing import Final

from kcp_py.storage.contract import Put
from kcp_py.storage.opening import open_storage
from tests.benchmarks.load import run
from tests.benchmarks.objects import config_map, creates
from tests.benchmarks.processes import Process, compiled, kcp
from tests.benchmarks.row import Row

OBJECTS: Final = 1_000_000
CLUSTERS: Final = 10_000
LOGGED: Final = 5_000
"""Objects of 2 KB that are in the write-ahead log when a server is killed."""
_LISTENED_SECONDS: Final = 20.0
_FIRST_SECONDS: Final = 2.0
"""In these, a start uses its allowance of faster reads."""
_MAPS: Final = "/clusters/c0/api/v1/namespaces/default/configmaps"
_CLUSTER: Final = "/clusters/c1/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
_ROOT: Final = "/registry/"


async def seed(root: Path) -> None:
    """Copy a logical cluster with one object in the store, past the API: creates would take ten minutes."""
    with kcp(root) as ours:
        requests = creates(ours.target, _MAPS.replace("/c0/", "/t/"), iter(["m0"]), lambda name: config_map(name, "x" * 200))
        await run(ours.target, requests, connections=1, expect=b" 201 ")
    async with open_storage("sqlite", path=root / "kcp.db") as storage:
        stored = (await storage.range(_ROOT)).items
        (cluster,) = [item for item in stored if item.key.endswith("/logicalclusters/t/cluster")]
        (one,) = [item for item in stored if item.key.endswith("/t/default/m0")]
        copies = (
            Put(item.key.replace("/t/", f"/c{number}/").replace("/m0", f"/m{copy}"), item.value.replace(b'"m0"', b'"m%d"' % copy))
            for number in range(CLUSTERS)
            for item, count in ((cluster, 1), (one, OBJECTS // CLUSTERS))
            for copy in range(count)
        )
        while together := list(islice(copies, 500)):
            await storage.transact([], together)
        await storage.compact(await storage.revision())
        # The store removes the history in the background, and a server would have to continue.
        log, written = root / "kcp.db-wal", 0
        while written != (written := log.stat().st_mtime_ns):
            await asyncio.sleep(1)


async def start_row(directory: Path) -> AsyncIterator[Row]:
    """Start with 1,000,000 stored objects, also after a kill, what it reads afterwards, the program's own start, and an idle server."""
    root = directory / "start"
    await seed(root)
    work = f"start to ready with {OBJECTS:,} objects"
    for after in ("", ", after kill -9 under load"):
        ready = []
        for _ in range(4):
            with kcp(root) as ours:
                await ours.target.one("GET", f"{_MAPS}/m0")
                ready.append((ours.seconds_to_ready, ours.cpu_seconds))
                if after:
                    names = (f"k{number}" for number in count(LOGGED * len(ready)))
                    requests = creates(ours.target, _MAPS, islice(names, LOGGED), lambda name: config_map(name, "x" * 2_000))
                    await run(ours.target, requests, connections=64, expect=b" 201 ")
                    ours.process.kill()
        # The first start compiles modules, or follows an orderly end.
        seconds, spent = min(ready[1:])
        yield Row(f"{work}{after}", f"{seconds:.2f} s", "", "", "<= 0.6 s", f"{spent:.2f} s of CPU to the first answer")
    with kcp(root) as ours:
        await asyncio.sleep(_FIRST_SECONDS)
        yield Row("reading of existing objects after the start", f"{await _share(ours, _LISTENED_SECONDS):.1%} of a core", "", "", "<= 5 %")
        await ours.target.one("DELETE", _CLUSTER)
        ours.process.kill()
    with kcp(root) as ours:
        began = time.perf_counter()
        while b" 404 " not in (await ours.target.one("GET", _CLUSTER))[:16]:
            await asyncio.sleep(0.01)
        yield Row(
            "start to the end of an interrupted deletion", f"{time.perf_counter() - began + ours.seconds_to_ready:.2f} s", "", "", "<= 5 s"
        )
    spent_seconds = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([str(Path(sys.executable).parent / "kcp-py"), "version"], check=True, capture_output=True, env=compiled(directory))
        spent_seconds.append(time.perf_counter() - start)
    yield Row("kcp-py version", f"{min(spent_seconds):.2f} s", "", "", "<= 0.15 s")
    with kcp(directory / "idle", plain=False) as ours:
        await asyncio.sleep(2)
        share = await _share(ours, 10)
        yield Row("idle server", f"{ours.resident / 1e6:.0f} MB, {share:.2%} of a core", "", "", "<= 90 MB, < 0.5 %")


async def _share(ours: Process, seconds: float) -> float:
    """The part of a core that a server uses."""
    before = ours.cpu_seconds
    await asyncio.sleep(seconds)
    return (ours.cpu_seconds - before) / seconds


START_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "start": start_row,
}
