"""Rows about CustomResourceDefinitions: the time until they are served and published among many others, and the memory of a compiled one.

The last two are measured in this process, over the corpus of real definitions where it is there.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import timeit
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from kcp_py.apis.upstream.provider import UpstreamKinds
from kcp_py.registry.catalog.compilation import CompiledCRD, CompiledCRDs, MalformedCRDError
from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.schema.crd.validation import default_crd, initial_status
from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import crd_body
from tests.benchmarks.processes import kcp
from tests.benchmarks.row import Row
from tests.corpus import CORPUS, read, rows

CRDS = "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = b"Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n"
LOOP_HELD = "loop held <= 50 ms"


async def _fill(target: Target, count: int) -> None:
    """So many CRDs, ten to a group, and wait until the last is served."""
    bodies = [crd_body(f"gadget{number}s", f"g{number // 10}.example.com") for number in range(count)]
    await run(target, iter([(target.head("POST", CRDS, len(body)), body) for body in bodies]), connections=8, expect=b" 201 ")
    for number in range(count):
        path = f"/clusters/a/apis/g{number // 10}.example.com/v1/gadget{number}s"
        while b" 200 " not in (await target.one("GET", path))[:16]:
            await asyncio.sleep(0.01)


@contextmanager
def _beside(target: Target) -> Iterator[list[float]]:
    """Small requests to another cluster from a thread: the slowest of them tells how long the server's loop was held."""
    done = threading.Event()
    slowest = [0.0]

    def probe() -> None:
        head = target.head("GET", "/clusters/b/api/v1/namespaces/default/configmaps/none")
        with socket.create_connection(("127.0.0.1", target.port)) as connection:
            while not done.wait(0.001):
                start = time.perf_counter()
                connection.sendall(head)
                connection.recv(65_536)
                slowest[0] = max(slowest[0], time.perf_counter() - start)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield slowest
    finally:
        done.set()
        thread.join()


async def _until(target: Target, path: str, found: Callable[[bytes], bool], start: float, *, aggregated: bool = False) -> float:
    """Seconds since the start until an answer has the expected content."""
    head = target.head("GET", path)
    if aggregated:
        head = head.replace(b"Accept: application/json\r\n", AGGREGATED)
    connection = await target.connect()
    try:
        while not found(await connection.request(head)):
            await asyncio.sleep(0.001)
    finally:
        connection.close()
    return time.perf_counter() - start


def _is_ok(answer: bytes) -> bool:
    return b" 200 " in answer[:16]


def _names(name: bytes, answer: bytes) -> bool:
    return name in answer


async def crds_row(directory: Path) -> AsyncIterator[Row]:
    """From the create of a CRD until it is served, discovered and published, asked for one after the other."""
    for count in (10, 500, 2_000):
        with kcp(directory / f"definitions-{count}") as ours:
            target = ours.target
            await _fill(target, count)
            for path in ("apis", "openapi/v3", "openapi/v2"):
                await target.one("GET", f"/clusters/a/{path}")
            runs: list[tuple[float, ...]] = []
            held = []
            for number in range(10):
                group = f"new{number}.example.org"
                body = crd_body("things", group)
                with _beside(target) as slowest:
                    start = time.perf_counter()
                    await target.one("POST", CRDS, body)
                    resource, version = f"/clusters/a/apis/{group}/v1/things", f"/clusters/a/openapi/v3/apis/{group}/v1"
                    named = partial(_names, group.encode())
                    seconds = (
                        await _until(target, resource, _is_ok, start),
                        await _until(target, "/clusters/a/apis", named, start, aggregated=True),
                        await _until(target, version, _is_ok, start),
                        await _until(target, "/clusters/a/openapi/v2", named, start),
                    )
                runs.append(seconds)
                held.append(slowest[0])
            figure = f"{_milliseconds(map(median, zip(*runs, strict=True)))} ms"
            worst = _milliseconds(map(max, zip(*runs, strict=True)))
            beside = f"a small request beside {_milliseconds([median(held), max(held)])} ms ({LOOP_HELD})"
            more = f"medians of 10; slowest {worst}; {beside}"
            yield Row(f"CRD created -> served / discovered / v3 / v2, beside {count:,}", figure, "", "", "<= 100 ms each", more)


def _milliseconds(seconds: Iterable[float]) -> str:
    return " / ".join(f"{one * 1e3:.0f}" for one in seconds)


async def openapi_row(directory: Path) -> AsyncIterator[Row]:
    """Both documents of a cluster with 500 CRDs, the first time and again."""
    with kcp(directory / "openapi") as ours:
        target = ours.target
        await _fill(target, 500)
        for path in ("openapi/v2", "openapi/v3", "openapi/v3/apis/g7.example.com/v1"):
            with _beside(target) as slowest:
                seconds = []
                for _ in range(5):
                    start = time.perf_counter()
                    answer = await target.one("GET", f"/clusters/a/{path}")
                    seconds.append(time.perf_counter() - start)
            figure = f"first {seconds[0] * 1e3:.0f} ms, then {min(seconds[1:]) * 1e3:.1f} ms"
            more = f"{len(answer) / 1e6:.2f} MB; a small request beside {slowest[0] * 1e3:.0f} ms ({LOOP_HELD})"
            yield Row(f"/{path}, 500 CRDs", figure, "", "", "", more)


def _stored(crd: dict[str, Any]) -> dict[str, Any]:
    default_crd(crd)
    status = {**initial_status(crd), "acceptedNames": crd["spec"]["names"]}
    return {**crd, "status": {**status, "conditions": [{"type": "Established", "status": "True"}]}}


def _used(compiled: CompiledCRD) -> None:
    """What a first object of each version makes a schema prepare."""
    for resource in compiled.resources:
        obj: dict[str, Any] = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": {"name": "one"}, "spec": {}}
        resource.schema.prune(obj)
        resource.schema.default(obj)
        resource.schema.validate(obj)


async def compiled_row(directory: Path) -> AsyncIterator[Row]:
    """Time and memory of every compiled CRD of the corpus, prepared to the last as by a first object."""
    del directory
    if CORPUS is None:
        return
    files = [row["file"] for row in rows("crds-index.jsonl") if row["file"].startswith(("crds/", "crds-huge/"))]
    seconds: list[tuple[float, str]] = []
    sizes: list[tuple[int, str]] = []
    compiled = CompiledCRDs("/registry", upstream=UpstreamKinds())
    gc.collect()
    # Collecting after each CRD is to look at what that one has left, not at the whole process.
    gc.freeze()
    for file in files:
        crd = _stored(read(file))
        try:
            start = time.perf_counter()
            _used(compiled.compile(crd))
            seconds.append((time.perf_counter() - start, file))
        except MalformedCRDError:
            continue  # one of the few that validation refuses
        gc.collect()
        tracemalloc.start()
        kept = CompiledCRDs("/registry", upstream=UpstreamKinds()).compile(orjson.loads(orjson.dumps(crd)))
        _used(kept)
        gc.collect()
        sizes.append((tracemalloc.get_traced_memory()[0], file))
        tracemalloc.stop()
        del kept
    gc.unfreeze()
    average, (longest, slow) = sum(one for one, _ in seconds) / len(seconds), max(seconds)
    more = f"longest {longest * 1e3:.0f} ms: {slow}"
    yield Row(f"compile a CRD, {len(seconds)} of the corpus", f"{average * 1e3:.1f} ms", "", "", "loop held <= 50 ms", more)
    mean, (largest, big) = sum(one for one, _ in sizes) / len(sizes), max(sizes)
    yield Row("memory per compiled CRD", f"{mean / 1e3:.0f} KB", "", "", "<= 300 KB", f"largest {largest / 1e6:.1f} MB: {big}")


def _prometheus() -> dict[str, Any]:
    """An object of 4.5 KB with sixteen lists."""
    labels = {f"label-{number}": f"value-{number}" for number in range(6)}
    volumes = [{"name": f"volume-{number}", "configMap": {"name": f"config-{number}", "optional": True}} for number in range(8)]
    mounts = [{"name": f"volume-{number}", "mountPath": f"/etc/prometheus/volume-{number}", "readOnly": True} for number in range(8)]
    writes = [{"url": f"https://remote-{number}.example.com/api/v1/write", "remoteTimeout": "30s"} for number in range(4)]
    tolerations = [{"key": f"key-{number}", "operator": "Equal", "value": "true", "effect": "NoSchedule"} for number in range(4)]
    variables = [{"name": f"VARIABLE_{number}", "value": f"the value of the variable {number}"} for number in range(8)]
    resources = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": 2, "memory": "4Gi"}}
    container = {"name": "proxy", "image": "quay.io/example/proxy:v1.2.3", "env": variables, "resources": resources}
    container |= {"args": [f"--flag-{number}=value-{number}" for number in range(12)], "volumeMounts": mounts}
    spec = {
        "replicas": 2, "retention": "15d", "scrapeInterval": "30s", "evaluationInterval": "30s", "version": "v2.54.0",
        "serviceAccountName": "prometheus", "serviceMonitorSelector": {"matchLabels": labels}, "ruleSelector": {"matchLabels": labels},
        "podMonitorSelector": {"matchLabels": labels}, "externalLabels": labels, "resources": resources, "volumes": volumes,
        "volumeMounts": mounts, "remoteWrite": writes, "tolerations": tolerations, "containers": [container],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 2000},
        "secrets": [f"secret-{number}" for number in range(6)], "configMaps": [f"config-{number}" for number in range(6)],
    }  # fmt: skip
    metadata = {"name": "main", "namespace": "monitoring", "labels": labels}
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": metadata, "spec": spec}


async def schema_row(directory: Path) -> AsyncIterator[Row]:
    """Pruning, defaulting and validating a Prometheus object against its schema of over 2,000 nodes."""
    del directory
    if CORPUS is None:
        return
    crd = read("crds/monitoring.coreos.com_prometheuses.yaml")
    schema: StructuralSchema = compile_schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    good = _prometheus()
    broken = orjson.loads(orjson.dumps(good))
    broken["spec"] |= {"replicas": "two", "retention": "soon", "tolerations": [{"tolerationSeconds": "x"}, 7], "paused": 1}
    for name, obj in (("valid", good), ("with errors", broken)):

        def work(obj: dict[str, Any] = obj) -> int:
            schema.prune(obj)
            schema.default(obj)
            return len(schema.validate(obj))

        found = work()
        micros = min(timeit.repeat(work, number=10, repeat=100)) / 10 * 1e6
        size = f"{len(orjson.dumps(obj)) / 1e3:.1f} KB"
        wanted = "<= 120 us" if name == "valid" else ""
        yield Row(f"prune, default and validate a Prometheus, {name}", f"{micros:.0f} us", "", "", wanted, f"{size}, {found} errors told")


CRD_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "definitions": crds_row,
    "openapi": openapi_row,
    "compiled": compiled_row,
    "schema": schema_row,
}
