"""Rows about what a neighbour notices while the clients of another logical cluster do harm, and what memory that takes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.attackers import ATTACKS
from tests.benchmarks.load import Result, Target
from tests.benchmarks.processes import Process, kcp
from tests.benchmarks.row import Row

SECONDS: Final = 8.0
"""That the neighbour is measured for, a second after the attack has begun."""
REST_SECONDS: Final = 60.0
"""After which memory must have come back."""
MAPS: Final = "/clusters/neighbour/api/v1/namespaces/default/configmaps"


class _Noticed(NamedTuple):
    gets: Result
    puts: Result


async def _neighbour(target: Target, seconds: float) -> _Noticed:
    """One client that reads and writes a small object."""
    connection = await target.connect()
    taken: tuple[list[float], list[float]] = ([], [])
    begun = time.perf_counter()
    while (now := time.perf_counter()) < begun + seconds:
        body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"at":"%f"}}' % now
        for latencies, request in zip(
            taken,
            ((target.head("GET", f"{MAPS}/one"), b""), (target.head("PUT", f"{MAPS}/one", len(body)), body)),
            strict=True,
        ):
            start = time.perf_counter()
            answer = await connection.request(*request)
            latencies.append(time.perf_counter() - start)
            if b" 200 " not in answer[:16]:
                raise RuntimeError(answer[:400].decode(errors="replace"))
        await asyncio.sleep(0.002)
    connection.close()
    return _Noticed(*(Result(seconds, latencies) for latencies in taken))


async def _attacked(server: Process, token: str, attack: str) -> tuple[_Noticed, int, str]:
    """What the neighbour notices, the most memory that is resident, and the answers that the attackers got."""
    command = [sys.executable, "-m", "tests.benchmarks.attackers", attack, "--port", str(server.target.port), f"--token={token}"]
    process = await asyncio.create_subprocess_exec(*command, "--seconds", str(SECONDS + 2), stdout=asyncio.subprocess.PIPE)
    largest = 0

    async def look() -> None:
        nonlocal largest
        while True:
            largest = max(largest, server.resident)
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    try:
        await asyncio.sleep(1)
        noticed = await _neighbour(server.target, SECONDS)
        answers, _ = await process.communicate()
    finally:
        looking.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    return noticed, largest, answers.decode().strip()


async def abuse_row(attack: str, directory: Path) -> AsyncIterator[Row]:
    """A neighbour's requests and the memory of the server: quiet, under the attack, and a minute later."""
    root = directory / f"abuse-{attack}"
    with kcp(root, plain=False) as server:
        await server.target.one("POST", MAPS, b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}')
        await _neighbour(server.target, 1)
        quiet = await _neighbour(server.target, SECONDS / 2)
        before = server.resident
        token = (root / "admin-tokens.csv").read_text().partition(",")[0]
        noticed, largest, answers = await _attacked(server, token, attack)
        await asyncio.sleep(REST_SECONDS)
        after = server.resident
    for verb, mine, theirs in (("GET", noticed.gets, quiet.gets), ("PUT", noticed.puts, quiet.puts)):
        yield Row(
            f"{verb} of a neighbour under attack: {attack}",
            f"p99 {mine.percentile(0.99):.1f} ms",
            f"quiet {theirs.percentile(0.99):.1f} ms",
            f"p50 {mine.percentile(0.5):.1f} ms",
            f"p99 <= {3 * theirs.percentile(0.99) + 50:.0f} ms",
            answers,
        )
    megabyte = 1024 * 1024
    yield Row(
        f"memory under attack: {attack}",
        f"{largest / megabyte:.0f} MB",
        f"{before / megabyte:.0f} MB",
        f"{after / before:.0%} later",
        "<= 130 % a minute later",
    )


ABUSE_ROWS: Final[dict[str, Callable[[Path], AsyncIterator[Row]]]] = {f"abuse-{attack}": partial(abuse_row, attack) for attack in ATTACKS}
