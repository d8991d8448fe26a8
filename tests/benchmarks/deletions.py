"""The rows about deletions that delay others: a namespace with many objects, and a cascade during requests of another cluster."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

from tests.benchmarks.load import Result, Target, run
from tests.benchmarks.processes import Process, kcp
from tests.benchmarks.row import Row, percentiles

_DEPENDENTS = int(os.environ.get("BENCH_DEPENDENTS", "100000"))
_SECONDS = 4.0
"""For which the neighbour works before, and at most meanwhile."""


def _config_map(name: str, owner: str = "") -> bytes:
    metadata: dict[str, object] = {"name": name}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "blockOwnerDeletion": True}]
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 200}}).encode()


def _config_maps(cluster: str, namespace: str = "default") -> str:
    return f"/clusters/{cluster}/api/v1/namespaces/{namespace}/configmaps"


def _creates(target: Target, path: str, names: Iterator[str], owner: str = "") -> Iterator[tuple[bytes, bytes]]:
    for name in names:
        body = _config_map(name, owner)
        yield target.head("POST", path, len(body)), body


async def namespace_row(directory: Path) -> AsyncIterator[Row]:
    """A namespace with 10,000 objects, from its deletion until it is gone."""
    objects = 10_000
    with kcp(directory / "namespace", "--namespace-deletion-grace", "0s") as ours:
        target = ours.target
        body = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"full"}}'
        await target.one("POST", "/clusters/a/api/v1/namespaces", body)
        await run(
            target,
            _creates(target, _config_maps("a", "full"), (f"m{number}" for number in range(objects))),
            connections=64,
            expect=b" 201 ",
        )
        start = time.perf_counter()
        await target.one("DELETE", "/clusters/a/api/v1/namespaces/full")
        while b" 200 " in (await target.one("GET", "/clusters/a/api/v1/namespaces/full"))[:16]:
            await asyncio.sleep(0.02)
        yield Row("delete a namespace of 10,000 objects", f"{time.perf_counter() - start:.1f} s", "", "", "<= 5 s")


async def cascade_row(directory: Path) -> AsyncIterator[Row]:
    """100,000 dependents that go with their owner, and a neighbour who creates objects meanwhile."""
    with kcp(directory / "cascade") as ours:
        numbers = count()
        for connections in (1, 16):
            for propagation in ("Background", "Foreground"):
                yield await _cascade(
                    ours, f"a{connections}{propagation.lower()}", numbers, connections=connections, propagation=propagation
                )


async def _cascade(ours: Process, cluster: str, numbers: Iterator[int], *, connections: int, propagation: str) -> Row:
    target = ours.target
    answer = await target.one("POST", _config_maps(cluster), _config_map("owner"))
    owner = json.loads(answer.partition(b"\r\n\r\n")[2])["metadata"]["uid"]
    names = (f"m{number}" for number in range(_DEPENDENTS))
    await run(target, _creates(target, _config_maps(cluster), names, owner), connections=64, expect=b" 201 ")
    await asyncio.sleep(1)
    alone = await _for_a_while(target, numbers, connections, lambda: False)
    memory = ours.resident
    start = time.perf_counter()
    body = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}).encode()
    await target.one("DELETE", f"{_config_maps(cluster)}/owner", body)
    gone = asyncio.create_task(_gone(target, cluster))
    beside = await _for_a_while(target, numbers, connections, gone.done)
    finished = gone.done()
    grown = ours.resident - memory
    await gone
    seconds = time.perf_counter() - start
    slower = beside.percentile(0.5) / alone.percentile(0.5)
    short = ", TOO SHORT" if finished else ""
    more = f"alone {percentiles(alone)}; beside {percentiles(beside)}; {seconds:.1f} s in all, +{grown / 1e6:.0f} MB{short}"
    name = f"{propagation} cascade of {_DEPENDENTS:,}, a neighbour's create, {connections} clients"
    ratio = f"{alone.rate / beside.rate:.2f}x, p50 {slower:.2f}x"
    return Row(name, f"{beside.rate:,.0f}/s", f"{alone.rate:,.0f}/s", ratio, "<= 2x", more)


async def _gone(target: Target, cluster: str) -> None:
    while b'"name":"' in await target.one("GET", f"{_config_maps(cluster)}?limit=1"):
        await asyncio.sleep(0.1)


async def _for_a_while(target: Target, numbers: Iterator[int], connections: int, over: Callable[[], bool]) -> Result:
    end = time.perf_counter() + _SECONDS

    def names() -> Iterator[str]:
        for number in numbers:
            yield f"n{number}"
            if time.perf_counter() > end or over():
                return

    made = _creates(target, _config_maps("neighbour"), names())
    return await run(target, made, connections=connections, expect=b" 201 ")


DELETION_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "namespace": namespace_row,
    "cascade": cascade_row,
}
