"""Thousands of logical clusters: their memory, wildcard watches over them, and their deletion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.benchmarks.load import EventDelays, Result, Target, run
from tests.benchmarks.objects import KILOBYTE, config_map, crd_body, gadget, gadgets, revision
from tests.benchmarks.processes import kcp
from tests.benchmarks.row import Row, percentiles


def _logical_cluster() -> bytes:
    return b'{"apiVersion":"core.kcp.io/v1alpha1","kind":"LogicalCluster","metadata":{"name":"cluster"}}'


def _cluster_heads(target: Target, count: int) -> Iterator[tuple[bytes, bytes]]:
    body = _logical_cluster()
    for number in range(count):
        yield target.head("POST", f"/clusters/c{number}/apis/core.kcp.io/v1alpha1/logicalclusters", len(body)), body


async def clusters_row(directory: Path) -> AsyncIterator[Row]:
    """10,000 logical clusters: made, weighed, and watched through the wildcard while writes come in."""
    count = 10_000
    with kcp(directory / "clusters") as ours:
        target = ours.target
        await run(target, _cluster_heads(target, 1), connections=1, expect=b" 201 ")
        await target.one("GET", "/clusters/c0/api/v1/namespaces")
        before = ours.resident
        mine = await run(target, islice(_cluster_heads(target, count), 1, None), connections=32, expect=b" 201 ")
        await asyncio.sleep(1)
        each = (ours.resident - before) / count
        yield Row("create 10,000 logical clusters", f"{mine.rate:,.0f}/s", "", "", ">= 1,000/s", percentiles(mine))
        yield Row("resident memory of an empty cluster", f"{each / 1e3:.2f} KB", "", "", "<= 4 KB")
        yield await _wildcard(target, count)


async def _wildcard(target: Target, clusters: int) -> Row:
    """Writes at 500/s spread over all clusters; the time from sending a write to its event."""
    events = EventDelays()
    stream = await target.stream(f"/clusters/*/api/v1/configmaps?watch=true&resourceVersion={await revision(target, 'c0')}", events.on_line)
    connections = [await target.connect() for _ in range(16)]
    total, rate = 5_000, 500
    pending: set[asyncio.Task[bytes]] = set()
    start = time.perf_counter()
    for number in range(total):
        wait = start + number / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        while not connections:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        connection = connections.pop()
        body = config_map(f"w{number}", KILOBYTE)
        head = target.head("POST", f"/clusters/c{number * 7919 % clusters}/api/v1/namespaces/default/configmaps", len(body))
        events.sent[b"%d" % number] = time.perf_counter()

        async def send(connection: Any = connection, head: bytes = head, body: bytes = body) -> bytes:
            answer: bytes = await connection.request(head, body)
            connections.append(connection)
            return answer

        task = asyncio.create_task(send())
        pending.add(task)
        task.add_done_callback(pending.discard)
    if pending:
        await asyncio.wait(pending)
    lost = await events.wait()
    assert stream.transport is not None
    stream.transport.abort()
    result = Result(1, events.delays)
    figure = f"p99 {result.percentile(0.99):.1f} ms"
    return Row("wildcard watch over 10,000 clusters, 500 writes/s", figure, "", "", "p99 <= 50 ms", percentiles(result) + lost)


async def content_row(directory: Path) -> AsyncIterator[Row]:
    """1,000 clusters with the same 10 CRDs and 10 objects each, beyond the first ones, whose events fill the bounded caches."""
    first, count, kinds = 300, 1_000, 10
    with kcp(directory / "content") as ours:
        target = ours.target

        async def fill(numbers: range) -> None:
            path = "/clusters/c{}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            for kind in range(kinds):
                body = crd_body(f"gadget{kind}s")
                heads = ((target.head("POST", path.format(number), len(body)), body) for number in numbers)
                await run(target, heads, connections=16, expect=b" 201 ")
            for number in numbers:
                while b" 200 " not in (await target.one("GET", gadgets(f"c{number}", f"gadget{kinds - 1}s")))[:16]:
                    await asyncio.sleep(0.05)

            def objects() -> Iterator[tuple[bytes, bytes]]:
                for number in numbers:
                    for kind in range(kinds):
                        plural = f"gadget{kind}s"
                        body = gadget("one", plural.removesuffix("s").capitalize())
                        yield target.head("POST", gadgets(f"c{number}", plural), len(body)), body

            await run(target, objects(), connections=16, expect=b" 201 ")
            await asyncio.sleep(2)

        cold = ours.resident
        await fill(range(first))
        before = ours.resident
        await fill(range(first, first + count))
        each = (ours.resident - before) / count
        bounded = f"and {(before - cold) / 1e6:.0f} MB for the first {first} with every bounded cache"
        yield Row("1,000 clusters x 10 CRDs x 10 objects, memory each", f"{each / 1e3:.1f} KB", "", "", "<= 40 KB", bounded)


async def deletion_row(directory: Path) -> AsyncIterator[Row]:
    """1,000 clusters with 100 objects each, deleted; twice, as only the second time shows whether memory is kept."""
    count, objects = 1_000, 100
    with kcp(directory / "deletion") as ours:
        target = ours.target
        memory = [ours.resident]
        for _ in range(2):

            def contents() -> Iterator[tuple[bytes, bytes]]:
                for number in range(count):
                    for item in range(objects):
                        body = config_map(f"m{item}", "text")
                        yield target.head("POST", f"/clusters/d{number}/api/v1/namespaces/default/configmaps", len(body)), body

            await run(target, contents(), connections=32, expect=b" 201 ")
            path = "/clusters/{}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
            start = time.perf_counter()
            await run(target, ((target.head("DELETE", path.format(f"d{number}")), b"") for number in range(count)), connections=32)
            while b'"clusterName":"d' in await target.one("GET", "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters?limit=2"):
                await asyncio.sleep(0.05)
            seconds = time.perf_counter() - start
            await asyncio.sleep(2)
            memory.append(ours.resident)
        kept = " -> ".join(f"{figure / 1e6:.0f}" for figure in memory)
        yield Row("delete 1,000 clusters x 100 objects", f"{seconds:.1f} s", "", "", "<= 10 s, within 10 %", f"memory {kept} MB")


CLUSTER_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "clusters": clusters_row,
    "content": content_row,
    "deletion": deletion_row,
}
