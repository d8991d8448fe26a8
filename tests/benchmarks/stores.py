"""Requests to a server on etcd, compared with one on SQLite in the same run, and to two servers on one etcd, compared with one.

All servers share one core, and the processor time of a server for one operation is measured. Of two servers it is that of the busier one:
as many requests as it allows a second are answered where each server has a core.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import creates, gadget, gadgets, install, repeated
from tests.benchmarks.processes import LOAD_CORE, Process, free_port, kcp
from tests.benchmarks.row import Row

_ROUNDS = 5
_GETS = 3_000
_WRITES = 1_000
_LISTS = 30
_CONNECTIONS = 16
_WANTED = {"GET": "<= 1.4x", "create": "", "PUT": "", "list of 1,000": "<= 2x"}


@contextmanager
def etcd(directory: Path) -> Iterator[str]:
    """A member of its own, on the core of the load; its address. `KCP_PY_TEST_ETCD` selects the program."""
    directory.mkdir()
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    program = os.environ.get("KCP_PY_TEST_ETCD") or str(Path(sys.executable).with_name("etcd"))
    command = [program, "--data-dir", str(directory / "data"), "--log-level", "error", "--initial-cluster", f"default={peer}"]
    for name, url in (("listen-client-urls", client), ("advertise-client-urls", client), ("listen-peer-urls", peer)):
        command += [f"--{name}", url]
    command += ["--initial-advertise-peer-urls", peer]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CORE})) as process,
    ):
        try:
            yield client
        finally:
            process.terminate()


async def _cpu(server: Process, requests: list[tuple[bytes, bytes]], expect: bytes = b" 200 ") -> float:
    """Seconds of processor time for one request."""
    before = server.cpu_seconds
    await run(server.target, iter(requests), connections=_CONNECTIONS, expect=expect)
    return (server.cpu_seconds - before) / len(requests)


def _updates(target: Target, listed: bytes, number: int) -> Iterator[tuple[bytes, bytes]]:
    for at, item in enumerate(json.loads(listed.partition(b"\r\n\r\n")[2])["items"]):
        item["spec"]["replicas"] = number + at + 10
        body = json.dumps(item, separators=(",", ":")).encode()
        yield (
            target.head("PUT", f"{gadgets(item['metadata']['annotations']['kcp.io/cluster'])}/{item['metadata']['name']}", len(body)),
            body,
        )


async def _round(server: Process, cluster: str, number: int) -> dict[str, float]:
    target, path = server.target, gadgets(cluster)
    await install(target, cluster)
    spent = {"create": await _cpu(server, list(creates(target, path, (f"g{at}" for at in range(_WRITES)), gadget)), b" 201 ")}
    await run(target, repeated(target.head("GET", f"{path}/g0"), 300), connections=_CONNECTIONS)
    spent["GET"] = await _cpu(server, list(repeated(target.head("GET", f"{path}/g0"), _GETS)))
    listed = await target.one("GET", path)
    spent["list of 1,000"] = await _cpu(server, list(repeated(target.head("GET", path), _LISTS)))
    spent["PUT"] = await _cpu(server, list(_updates(target, listed, number * _WRITES)))
    return spent


async def stores_row(directory: Path) -> AsyncIterator[Row]:
    """GET, create, PUT and list of 1 KB objects by 16 clients, on etcd and on SQLite alternately."""
    spent: dict[str, list[dict[str, float]]] = {"etcd": [], "sqlite": []}
    with ExitStack() as stack:
        url = stack.enter_context(etcd(directory / "stores-etcd"))
        servers = {
            "etcd": stack.enter_context(kcp(directory / "stores-a", "--storage", "etcd", "--etcd-servers", url)),
            "sqlite": stack.enter_context(kcp(directory / "stores-b")),
        }
        for number in range(_ROUNDS):
            for name, server in servers.items():
                spent[name].append(await _round(server, f"round-{number}", number))
    for work, wanted in _WANTED.items():
        ours, theirs = (median(one[work] for one in spent[name]) for name in ("etcd", "sqlite"))
        yield Row(f"{work}, etcd beside SQLite, CPU", f"{ours * 1e6:,.0f} us", f"{theirs * 1e6:,.0f} us", f"{ours / theirs:.2f}x", wanted)


async def _used(servers: list[Process], requests: list[tuple[str, str, bytes]], expect: bytes = b" 200 ") -> list[float]:
    """Seconds of processor time of each server for one of all requests, where each server receives its part of them."""
    parts = [
        [(server.target.head(method, path, len(body)), body) for method, path, body in requests[at :: len(servers)]]
        for at, server in enumerate(servers)
    ]
    before = [server.cpu_seconds for server in servers]
    await asyncio.gather(
        *(run(server.target, iter(part), connections=_CONNECTIONS, expect=expect) for server, part in zip(servers, parts, strict=True))
    )
    return [(server.cpu_seconds - then) / len(requests) for server, then in zip(servers, before, strict=True)]


async def _shared_round(servers: list[Process], cluster: str) -> dict[str, float]:
    path = gadgets(cluster)
    await install(servers[0].target, cluster)
    spent = {"create": max(await _used(servers, [("POST", path, gadget(f"g{at}")) for at in range(_WRITES)], b" 201 "))}
    for server in servers:
        await run(server.target, repeated(server.target.head("GET", f"{path}/g0"), 300), connections=_CONNECTIONS)
        await server.target.one("GET", path)
    spent["GET"] = max(await _used(servers, [("GET", f"{path}/g0", b"")] * _GETS))
    spent["list of 1,000"] = max(await _used(servers, [("GET", path, b"")] * (2 * _LISTS)))
    before = servers[-1].cpu_seconds
    await _used(servers[:1], [("POST", path, gadget(f"h{at}")) for at in range(_WRITES)], b" 201 ")
    spent["event"] = (servers[-1].cpu_seconds - before) / _WRITES
    return spent


async def servers_row(directory: Path) -> AsyncIterator[Row]:
    """One server on an etcd, and two on another one, by the processor time of the busier server."""
    spent: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    with ExitStack() as stack:
        servers: dict[int, list[Process]] = {}
        for count in spent:
            url = stack.enter_context(etcd(directory / f"servers-etcd-{count}"))
            arguments = ("--storage", "etcd", "--etcd-servers", url)
            servers[count] = [stack.enter_context(kcp(directory / f"servers-{count}-{at}", *arguments)) for at in range(count)]
        for number in range(_ROUNDS):
            for count, together in servers.items():
                spent[count].append(await _shared_round(together, f"round-{number}"))
    for work in ("GET", "create", "list of 1,000"):
        alone, two = (median(one[work] for one in spent[count]) for count in (1, 2))
        yield Row(f"{work}, two servers on etcd", f"{1 / two:,.0f}/s", f"{1 / alone:,.0f}/s", f"{alone / two:.2f}x", ">= 1.6x")
    create, event = median(one["create"] for one in spent[1]), median(one["event"] for one in spent[2])
    yield Row("create at the other server, CPU", f"{event * 1e6:,.0f} us", f"{create * 1e6:,.0f} us", f"{event / create:.2f}x", "")


STORE_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {"stores": stores_row, "servers": servers_row}
