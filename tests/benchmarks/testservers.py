"""Servers for tests: in the process, as a command, and snapshots of their clusters.

The command runs with compiled modules, as an installed program does: its first run fills a directory of bytecode, and is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.benchmarks.processes import compiled
from tests.benchmarks.row import Row

_RUNS = 5
_IN_PROCESS = """
import asyncio, json, time
import kcp_py.testing.local

async def ready():
    began = time.perf_counter()
    async with kcp_py.testing.local.control_plane() as server:
        spent = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(100):
            cluster = await server.new_cluster()
        return spent, (time.perf_counter() - began) / 100

print(json.dumps(asyncio.run(ready())))
"""
_IMPORT = """
import time
began = time.perf_counter()
import kcp_py.cli.testserver, kcp_py.testing.process, uvloop, yaml
print(time.perf_counter() - began)
"""


async def testserver_row(directory: Path) -> AsyncIterator[Row]:
    """The start in the process and as a command, by phase, and a logical cluster for a test."""
    environment = compiled(directory)

    def output(text: str) -> str:
        command = [sys.executable, "-c", text]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    def started() -> tuple[float, float, float]:
        """Seconds of a command: until its line, of the command alone, and of processor time."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "kcp_py", "test-server"]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            line = json.loads(process.stdout.readline())
            spent = time.perf_counter() - began
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            process.stdin.close()
            process.wait()
        return spent, line["startSeconds"], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    started()
    output(_IN_PROCESS)
    in_process = [json.loads(output(_IN_PROCESS)) for _ in range(_RUNS)]
    yield Row("in process, from import to ready", f"{min(spent for spent, _ in in_process) * 1000:.0f} ms", "", "", "<= 50 ms")
    yield Row("a logical cluster of a test", f"{min(spent for _, spent in in_process) * 1000:.2f} ms", "", "", "<= 2 ms")
    imports = min(float(output(_IMPORT)) for _ in range(_RUNS))
    runs = [started() for _ in range(_RUNS)]
    whole, own, processor = min(runs)
    listening = max(0.0, own - imports)
    phases = f"interpreter {whole - own:.2f} s, imports {imports:.2f} s, open and listen {listening:.2f} s; processor {processor:.2f} s"
    yield Row("kcp-py test-server", f"{whole:.2f} s", "", "", "<= 0.6 s", phases)


async def snapshot_row(_: Path) -> AsyncIterator[Row]:
    """Save and clone a logical cluster with 1,000 objects, in memory."""
    from kcp_py.testing import control_plane

    async with control_plane(controllers=()) as server:
        template = await server.new_cluster()
        await template.apply(*({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}} for number in range(1000)))
        saves, clones = [], []
        for _run in range(_RUNS):
            began = time.perf_counter()
            saved = await template.save()
            saves.append(time.perf_counter() - began)
            began = time.perf_counter()
            await server.new_cluster(content=saved)
            clones.append(time.perf_counter() - began)
        yield Row("save 1,000 objects", f"{min(saves) * 1000:.1f} ms", "", "", "<= 20 ms")
        yield Row("clone 1,000 objects", f"{min(clones) * 1000:.1f} ms", "", "", "<= 20 ms")


TEST_SERVER_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "test-server": testserver_row,
    "snapshots": snapshot_row,
}
