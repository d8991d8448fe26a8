"""The rows of the table: each runs its servers, loads them, and says what it measured."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kcp_py.cel.environment import Environment
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import INT, STRING, Field, list_of, object_of
from kcp_py.cel.values import Budget
from tests.benchmarks.load import Result, Stream, Target, run
from tests.benchmarks.processes import Process, bare, kcp

GROUP = "bench.example.com"
KILOBYTE = "x" * 700


class Row(NamedTuple):
    """One line of the table."""

    work: str
    ours: str
    bare: str
    ratio: str
    wanted: str
    percentiles: str = ""


def definition(plural: str = "gadgets", group: str = GROUP, *, rules: int = 0) -> bytes:
    """A CRD of ordinary size, with so many CEL rules."""
    properties = {
        "replicas": {"type": "integer", "minimum": 0},
        "image": {"type": "string", "pattern": "^[a-z0-9./:-]+$"},
        "mode": {"type": "string", "enum": ["fast", "safe"], "default": "safe"},
        "text": {"type": "string", "maxLength": 4096},
        "ports": {
            "type": "array",
            "items": {"type": "object", "required": ["port"], "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
        },
    }
    spec: dict[str, Any] = {"type": "object", "required": ["image"], "properties": properties}
    if rules:
        texts = (
            "self.replicas <= {n} + 100",
            "self.image.startsWith('registry') || {n} < 0",
            "!has(self.mode) || self.mode != 'never-{n}'",
        )
        spec["x-kubernetes-validations"] = [{"rule": texts[n % len(texts)].format(n=n)} for n in range(rules)]
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    kind = plural.removesuffix("s").capitalize()
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]},
    }
    return json.dumps(crd, separators=(",", ":")).encode()


def gadget(name: str, kind: str = "Gadget") -> bytes:
    """A custom resource of about 1 KB."""
    spec = {"replicas": 3, "image": "registry.example.com/app:1", "ports": [{"name": "http", "port": 80}], "text": KILOBYTE}
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}
    return json.dumps(body, separators=(",", ":")).encode()


def gadgets(cluster: str, plural: str = "gadgets") -> str:
    return f"/clusters/{cluster}/apis/{GROUP}/v1/namespaces/default/{plural}"


async def install(target: Target, cluster: str, plural: str = "gadgets", *, rules: int = 0) -> None:
    """Create the CRD and wait until its resource is served."""
    body = definition(plural, rules=rules)
    await target.one("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    while b" 200 " not in (await target.one("GET", gadgets(cluster, plural)))[:16]:
        await asyncio.sleep(0.01)


def creates(target: Target, path: str, names: Iterator[str], make: Callable[[str], bytes] = gadget) -> Iterator[tuple[bytes, bytes]]:
    for name in names:
        body = make(name)
        yield target.head("POST", path, len(body)), body


def repeated(head: bytes, count: int) -> Iterator[tuple[bytes, bytes]]:
    return ((head, b"") for _ in range(count))


def percentiles(result: Result) -> str:
    return f"p50 {result.percentile(0.5):.2f} ms, p99 {result.percentile(0.99):.2f} ms"


async def get_row(directory: Path) -> AsyncIterator[Row]:
    """GET of a 1 KB object, plain and on TLS."""
    for plain in (True, False):
        root = directory / f"get-{plain}"
        with kcp(root, plain=plain) as ours:
            await install(ours.target, "a")
            created = await ours.target.one("POST", gadgets("a"), gadget("one"))
            path = f"{gadgets('a')}/one"
            size = len(created.partition(b"\r\n\r\n")[2])
            await run(ours.target, repeated(ours.target.head("GET", path), 2_000), connections=32)
            mine = await run(ours.target, repeated(ours.target.head("GET", path), 20_000), connections=32)
        with bare(directory, None if plain else root / "pki") as other:
            await run(other.target, repeated(other.target.head("GET", f"/fixed/{size}"), 2_000), connections=32)
            theirs = await run(other.target, repeated(other.target.head("GET", f"/fixed/{size}"), 20_000), connections=32)
        name = f"GET of a 1 KB object, {'plain' if plain else 'TLS'}"
        ratio = f"{mine.rate / theirs.rate:.0%}"
        yield Row(name, f"{mine.rate:,.0f}/s", f"{theirs.rate:,.0f}/s", ratio, ">= 45 %", percentiles(mine))


async def create_row(directory: Path) -> AsyncIterator[Row]:
    """Durable creates of a validated 1 KB custom resource by 64 clients."""
    for plain in (True, False):
        root = directory / f"create-{plain}"
        with kcp(root, plain=plain) as ours:
            await install(ours.target, "a")
            names = (f"g{number}" for number in range(10**9))
            await run(ours.target, creates(ours.target, gadgets("a"), islice(names, 2_000)), connections=64, expect=b" 201 ")
            mine = await run(ours.target, creates(ours.target, gadgets("a"), islice(names, 20_000)), connections=64, expect=b" 201 ")
        with bare(directory, None if plain else root / "pki") as other:
            names = (f"g{number}" for number in range(10**9))
            await run(other.target, creates(other.target, "/commit", islice(names, 2_000)), connections=64)
            theirs = await run(other.target, creates(other.target, "/commit", islice(names, 20_000)), connections=64)
        name = f"create of a 1 KB CR, durable, 64 clients, {'plain' if plain else 'TLS'}"
        ratio = f"{mine.rate / theirs.rate:.0%}"
        yield Row(name, f"{mine.rate:,.0f}/s", f"{theirs.rate:,.0f}/s", ratio, ">= 40 %", percentiles(mine))


async def rules_row(directory: Path) -> AsyncIterator[Row]:
    """Creates of a custom resource whose schema has CEL rules, compared with one without rules."""
    with kcp(directory / "rules") as ours:
        plain = 0.0
        for rules in (0, 10, 100):
            cluster = f"rules-{rules}"
            await install(ours.target, cluster, rules=rules)
            names = (f"g{number}" for number in range(10**9))
            await run(ours.target, creates(ours.target, gadgets(cluster), islice(names, 1_000)), connections=64, expect=b" 201 ")
            mine = await run(ours.target, creates(ours.target, gadgets(cluster), islice(names, 10_000)), connections=64, expect=b" 201 ")
            plain = plain or mine.rate
            name = f"create of a 1 KB CR with {rules} CEL rules, durable, 64 clients"
            yield Row(name, f"{mine.rate:,.0f}/s", "", f"{mine.rate / plain:.0%}", "", percentiles(mine))


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


async def watch_row(directory: Path) -> AsyncIterator[Row]:
    """One event to 1,000 watchers, and what 5,000 idle ones cost."""
    count, idle = 1_000, 5_000
    figures: dict[str, tuple[float, float, float]] = {}
    for name in ("ours", "bare"):
        with kcp(directory / "watch") if name == "ours" else bare(directory) as server:
            target = server.target
            if name == "ours":
                await target.one("POST", "/clusters/a/api/v1/namespaces/default/configmaps", _config_map("first"))
            path = "/clusters/a/api/v1/configmaps?watch=true&resourceVersion=" + await _revision(target) if name == "ours" else "/stream"
            before = server.resident
            streams = [await target.stream(path) for _ in range(count)]
            walls = []
            for number in range(20):
                start = time.perf_counter()
                if name == "ours":
                    await target.one("POST", "/clusters/a/api/v1/namespaces/default/configmaps", _config_map(f"e{number}", KILOBYTE))
                else:
                    await target.one("POST", "/emit", b'{"x":"' + KILOBYTE.encode() + b'"}\n')
                await _all_have(streams, number + 1)
                walls.append(time.perf_counter() - start)
            started = time.perf_counter()
            streams += [await target.stream(path) for _ in range(idle - count)]
            connecting = (time.perf_counter() - started) / (idle - count)
            figures[name] = (sorted(walls)[len(walls) // 2], (server.resident - before) / idle, connecting)
            for stream in streams:
                assert stream.transport is not None
                stream.transport.abort()
    (wall, memory, connecting), (bare_wall, bare_memory, bare_connecting) = figures["ours"], figures["bare"]
    yield Row("one event to 1,000 watchers", f"{wall * 1e3:.0f} ms", f"{bare_wall * 1e3:.0f} ms", f"{wall / bare_wall:.2f}x", "<= 1.5x")
    memory_ratio = f"{memory / bare_memory:.2f}x"
    yield Row("5,000 idle watches, memory each", f"{memory / 1e3:.1f} KB", f"{bare_memory / 1e3:.1f} KB", memory_ratio, "<= 1.5x")
    time_ratio = f"{connecting / bare_connecting:.2f}x"
    yield Row("opening a watch", f"{connecting * 1e6:.0f} us", f"{bare_connecting * 1e6:.0f} us", time_ratio, "<= 1.5x")
    yield await _idle_on_tls(directory / "watch-tls")


async def _idle_on_tls(root: Path) -> Row:
    """What 2,000 idle watches cost on TLS.

    Both servers have closed a connection before: from then on the C library keeps buffers of that size on the heap.
    """
    count = 2_000
    figures = []
    for name in ("ours", "bare"):
        with kcp(root, plain=False) if name == "ours" else bare(root.parent, root / "pki") as server:
            target = server.target
            path = "/stream"
            if name == "ours":
                await target.one("POST", "/clusters/a/api/v1/namespaces/default/configmaps", _config_map("first"))
                path = f"/clusters/a/api/v1/configmaps?watch=true&resourceVersion={await _revision(target)}"
            else:
                await target.one("GET", "/fixed/1000")
            before = server.resident
            streams = [await target.stream(path) for _ in range(count)]
            figures.append((server.resident - before) / count)
            for stream in streams:
                assert stream.transport is not None
                stream.transport.abort()
    memory, bare_memory = figures
    ratio = f"{memory / bare_memory:.2f}x"
    return Row("2,000 idle watches on TLS, memory each", f"{memory / 1e3:.1f} KB", f"{bare_memory / 1e3:.1f} KB", ratio, "<= 1.5x")


async def _all_have(streams: list[Stream], events: int) -> None:
    while any(stream.received < events for stream in streams):
        await asyncio.sleep(0)


def _config_map(name: str, text: str = "") -> bytes:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}, separators=(",", ":")
    ).encode()


async def _revision(target: Target, cluster: str = "a") -> str:
    answer = await target.one("GET", f"/clusters/{cluster}/api/v1/configmaps")
    return answer.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()


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
    sent: dict[bytes, float] = {}
    delays: list[float] = []

    def on_line(data: bytes) -> None:
        now = time.perf_counter()
        for line in data.split(b"\n"):
            name = line.partition(b'"name":"w')[2].partition(b'"')[0]
            if name in sent:
                delays.append(now - sent.pop(name))

    stream = await target.stream(f"/clusters/*/api/v1/configmaps?watch=true&resourceVersion={await _revision(target, 'c0')}", on_line)
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
        body = _config_map(f"w{number}", KILOBYTE)
        head = target.head("POST", f"/clusters/c{number * 7919 % clusters}/api/v1/namespaces/default/configmaps", len(body))
        sent[b"%d" % number] = time.perf_counter()

        async def send(connection: Any = connection, head: bytes = head, body: bytes = body) -> bytes:
            answer: bytes = await connection.request(head, body)
            connections.append(connection)
            return answer

        task = asyncio.create_task(send())
        pending.add(task)
        task.add_done_callback(pending.discard)
    if pending:
        await asyncio.wait(pending)
    end = time.monotonic() + 5
    while sent and time.monotonic() < end:
        await asyncio.sleep(0.01)
    assert stream.transport is not None
    stream.transport.abort()
    result = Result(1, delays)
    figure = f"p99 {result.percentile(0.99):.1f} ms"
    lost = f", {len(sent)} LOST" if sent else ""
    return Row("wildcard watch over 10,000 clusters, 500 writes/s", figure, "", "", "p99 <= 50 ms", percentiles(result) + lost)


async def content_row(directory: Path) -> AsyncIterator[Row]:
    """1,000 clusters with the same 10 CRDs and 10 objects each, beyond the first ones, whose events fill the bounded caches."""
    first, count, kinds = 300, 1_000, 10
    with kcp(directory / "content") as ours:
        target = ours.target

        async def fill(numbers: range) -> None:
            path = "/clusters/c{}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            for kind in range(kinds):
                body = definition(f"gadget{kind}s")
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
                        body = _config_map(f"m{item}", "text")
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


async def start_row(directory: Path) -> AsyncIterator[Row]:
    """Start with 100,000 stored objects, the program's own start, and an idle server."""
    root = directory / "start"
    with kcp(root) as ours:
        path = "/clusters/a/api/v1/namespaces/default/configmaps"
        names = (f"m{number}" for number in range(100_000))
        await run(
            ours.target, creates(ours.target, path, names, lambda name: _config_map(name, "x" * 200)), connections=64, expect=b" 201 "
        )
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


async def cel_row(directory: Path) -> AsyncIterator[Row]:
    """A validation rule over a list of 50 items, compared with an equivalent Python function."""
    del directory
    item = object_of("Item", {name: Field(STRING, name) for name in ("name", "image", "mode")})
    fields = {"replicas": Field(INT, "replicas"), "maxReplicas": Field(INT, "maxReplicas"), "items": Field(list_of(item), "items")}
    environment = Environment({"self": object_of("Self", fields)}, [STANDARD])
    rule = "self.replicas <= self.maxReplicas && self.items.all(i, i.name.startsWith('a'))"
    program = compile_expression(rule, environment)
    value = {"replicas": 1, "maxReplicas": 2, "items": [{"name": f"a{index}", "image": "i", "mode": "m"} for index in range(50)]}

    def written(self: dict[str, Any]) -> bool:
        if self["replicas"] > self["maxReplicas"]:
            return False
        for entry in self["items"]:  # noqa: SIM110 -- a generator is half as fast
            if not entry["name"].startswith("a"):
                return False
        return True

    ours = min(timeit.repeat(lambda: program.evaluate(Budget(1_000_000), value), number=20_000, repeat=5)) / 20_000 * 1e6
    bare = min(timeit.repeat(lambda: written(value), number=20_000, repeat=5)) / 20_000 * 1e6
    yield Row("CEL rule over 50 items", f"{ours:.1f} us", f"{bare:.1f} us", f"{bare / ours:.0%}", "<= 5 us")


ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "get": get_row,
    "create": create_row,
    "rules": rules_row,
    "list": list_row,
    "watch": watch_row,
    "clusters": clusters_row,
    "content": content_row,
    "deletion": deletion_row,
    "start": start_row,
    "cel": cel_row,
}

__all__ = ["ROWS", "Coroutine", "Row"]
