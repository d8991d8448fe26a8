"""The start of a server and of the program, and an idle server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.benchmarks.load import run
from tests.benchmarks.objects import config_map, creates
from tests.benchmarks.processes import Process, kcp
from tests.benchmarks.row import Row


async def start_row(directory: Path) -> AsyncIterator[Row]:
    """Start with 100,000 stored objects, the program's own start, and an idle server."""
    root = directory / "start"
    with kcp(root) as ours:
        path = "/clusters/a/api/v1/namespaces/default/configmaps"
        names = (f"m{number}" for number in range(100_000))
        await run(ours.target, creates(ours.target, path, names, lambda name: config_map(name, "x" * 200)), connections=64, expect=b" 201 ")
    ready = []
    for _ in range(3):
        with kcp(root) as ours:
            ready.append(ours.seconds_to_ready)
    yield Row("start to ready with 100,000 objects", f"{min(ready):.2f} s", "", "", "<= 0.6 s")
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([str(Path(sys.executable).parent / "kcp-py"), "version"], check=True, capture_output=True)
        spent.append(time.perf_counter() - start)
    yield Row("kcp-py version", f"{min(spent):.2f} s", "", "", "<= 0.15 s")
    with kcp(directory / "idle", plain=False) as ours:
        await asyncio.sleep(2)
        yield await _idle(ours)


async def _idle(ours: Process, seconds: float = 10) -> Row:
    before = ours.cpu_seconds
    await asyncio.sleep(seconds)
    share = (ours.cpu_seconds - before) / seconds
    return Row("idle server", f"{ours.resident / 1e6:.0f} MB, {share:.2%} of a core", "", "", "<= 90 MB, < 0.5 %")


START_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "start": start_row,
}
