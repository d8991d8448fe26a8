"""Logical clusters at rest: the memory of a server whose store has very many with content, and the first request of each."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import orjson

from kcp_py.storage.contract import Put, Storage
from kcp_py.storage.sqlite import SQLiteStorage
from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import gadget, gadgets, install
from tests.benchmarks.processes import Process, kcp
from tests.benchmarks.row import Row, percentiles

COUNT: Final = int(os.environ.get("KCP_PY_BENCH_RESTING_CLUSTERS", "20000"))
KINDS: Final = 10
_TEMPLATE: Final = "c000000"
_LARGEST: Final = 460
"""Operations of one transaction."""
_AT_ONCE: Final = 16
_BINDING: Final = {
    "metadata": {"name": "bob"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
}


def _name(number: int) -> str:
    return f"c{number:06}"


async def _make(target: Target) -> None:
    """A cluster with ten CRDs, ten objects and a user, through the API."""
    await asyncio.gather(*(install(target, _TEMPLATE, f"gadget{kind}s") for kind in range(KINDS)))
    for kind in range(KINDS):
        await target.one("POST", gadgets(_TEMPLATE, f"gadget{kind}s"), gadget("one", f"Gadget{kind}"))
    path = f"/clusters/{_TEMPLATE}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    await target.one("POST", path, orjson.dumps(_BINDING))


async def _copy(storage: Storage, count: int) -> None:
    """Copy the keys of the cluster for others."""
    prefix = "/registry"
    keys = [item for item in (await storage.range(prefix)).items if f"/{_TEMPLATE}/" in item.key]

    def copies() -> Iterator[Put]:
        for number in range(1, count):
            name = _name(number)
            for item in keys:
                value = item.value.replace(_TEMPLATE.encode(), name.encode())
                if "/logicalclusters/" in item.key:
                    value = re.sub(rb'"uid":"[0-9a-f]{8}', b'"uid":"%08x' % number, value)
                yield Put(item.key.replace(_TEMPLATE, name), value)

    left = copies()
    while batches := [batch for _ in range(_AT_ONCE) if (batch := list(islice(left, _LARGEST)))]:
        await asyncio.gather(*(storage.transact((), batch) for batch in batches))


async def _touch(ours: Process, bob: Target, numbers: range, connections: int) -> tuple[str, float]:
    """One GET of an object in each cluster, by a user with a role there: percentiles, and seconds of CPU for each."""

    def heads() -> Iterator[tuple[bytes, bytes]]:
        return ((bob.head("GET", f"{gadgets(_name(number), 'gadget3s')}/one"), b"") for number in numbers)

    before = ours.cpu_seconds
    result = await run(bob, heads(), connections=connections, expect=b" 200 ")
    return percentiles(result), (ours.cpu_seconds - before) / len(numbers)


async def resting_row(directory: Path) -> AsyncIterator[Row]:
    """20,000 clusters with 10 CRDs and 10 objects each: memory after a start and after a request in each, and the first requests."""
    users = directory / "users.csv"
    users.write_text("bob-token,bob,bob-uid\n")
    root = directory / "resting"
    with kcp(root) as ours:
        await _make(ours.target)
    async with SQLiteStorage(root / "kcp.db") as storage:
        await _copy(storage, COUNT)
    with kcp(root, "--token-auth-file", str(users)) as ours:
        bob = Target(ours.target.port, token="bob-token")
        await asyncio.sleep(5)
        started = ours.resident
        few = min(1_000, COUNT // 4)
        text, seconds = await _touch(ours, bob, range(few), 1)
        yield Row("first GET in a cluster at rest, 10 CRDs, RBAC", f"{seconds * 1e3:.2f} ms CPU", "", "", "<= 5 ms", text)
        _, again = await _touch(ours, bob, range(few), 1)
        await _touch(ours, bob, range(few, COUNT), 16)
        touched = ours.resident
        figure = f"{started / 1e6:.0f} / {touched / 1e6:.0f} MB"
        more = f"a further GET {again * 1e3:.2f} ms CPU"
        yield Row(f"memory of {COUNT:,} clusters x 10 CRDs x 10 objects, started / all used", figure, "", "", "<= 300 MB", more)


RESTING_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {"resting": resting_row}
