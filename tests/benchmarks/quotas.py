"""The rows about quotas and limits: creates that they count, and the memory of quotas."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import orjson

from kcp_py.client import ObjectChange
from kcp_py.controllers.resourcequotas import RESOURCE_QUOTAS, ResourceQuotaController
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import BYTES_ANNOTATION, OBJECTS_ANNOTATION, REQUESTS_ANNOTATION
from kcp_py.registry.quota import QuotaLedger
from kcp_py.storage.contract import Put
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.memory import MemoryStorage
from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.processes import kcp
from tests.benchmarks.row import Row
from tests.client.registry import CONFIG_MAPS, ROOT, config_map, open_registry

_CONNECTIONS: Final = (1, 16, 64)
_CREATES: Final = 2_000
_ROUNDS: Final = 3
_QUOTAS: Final = resource_keys(ROOT, "", "resourcequotas", namespaced=True)


async def quota_row(directory: Path) -> AsyncIterator[Row]:
    """What quotas cost in time and memory."""
    for connections in _CONNECTIONS:
        yield await _creates(directory, connections)
    yield await _memory()


async def limit_row(directory: Path) -> AsyncIterator[Row]:
    """What limits of a whole cluster cost."""
    for connections in _CONNECTIONS:
        yield await _creates(directory, connections, limits=True)


async def _creates(directory: Path, connections: int, *, limits: bool = False) -> Row:
    """Creates in a namespace with a quota, or a cluster with limits, and in a cluster without: in turns, each the best of its rounds."""
    with kcp(directory / f"{'limits' if limits else 'quota'}-{connections}") as ours:
        target = ours.target
        if limits:
            await target.one("POST", "/clusters/with/apis/core.kcp.io/v1alpha1/logicalclusters", _limited())
        else:
            await target.one("POST", "/clusters/with/api/v1/namespaces/default/resourcequotas", _quota())
        best = {"with": 0.0, "without": 0.0}
        for number in range(_ROUNDS):
            for cluster in ("with", "without"):
                creates = _maps(target, cluster, number * _CREATES)
                result = await run(target, creates, connections=connections, expect=b" 201 ")
                best[cluster] = max(best[cluster], result.rate)
    mine, theirs = best["with"], best["without"]
    work = f"create with {'limits of the cluster' if limits else 'a quota'}, compared with a create without, {connections} connections"
    return Row(work, f"{mine:,.0f}/s", f"{theirs:,.0f}/s", f"{mine / theirs:.0%}", ">= 60 %")


def _maps(target: Target, cluster: str, first: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(first, first + _CREATES):
        body = orjson.dumps({"metadata": {"name": f"m{number}"}, "data": {"text": KILOBYTE}})
        yield target.head("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", len(body)), body


async def _memory() -> Row:
    """The memory of the quotas of 10,000 clusters, after a write in each."""
    clusters = [Name(f"c{number}") for number in range(10_000)]
    async with open_registry(MemoryStorage()) as registry:
        access = registry.access
        for cluster in clusters:
            await registry.clusters.ensure(cluster)
            await registry.storage.transact((), [Put(_QUOTAS.object_key(cluster, "default", "q"), _quota())])
        tracemalloc.start()
        access.ledger = ledger = QuotaLedger(registry.storage, ROOT, access.commit, shared=False)
        await ledger.start()
        controller = ResourceQuotaController(registry.tap)
        for cluster in clusters:
            tuple(controller.keys(ObjectChange(cluster, RESOURCE_QUOTAS.group_resource, "default", "q", b"{}", None)))
        before = tracemalloc.get_traced_memory()[0]
        for cluster in clusters[:1000]:
            await registry.client.create(cluster, CONFIG_MAPS, config_map("a"))
        snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/registry/quota/*")])
        views = sum(one.size for one in snapshot.statistics("filename"))
        tracemalloc.stop()
        await ledger.aclose()
    each = before / len(clusters)
    more = f"all read quotas together {views / 1e6:.1f} MB"
    return Row("quotas of 10,000 clusters, memory each", f"{each / 1e3:.2f} KB", "", "", "<= 5 KB", more)


def _quota() -> bytes:
    metadata = {"name": "q", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    hard = {"count/configmaps": "100000", "secrets": "10"}
    return orjson.dumps({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})


def _limited() -> bytes:
    annotations = {OBJECTS_ANNOTATION: "100000", BYTES_ANNOTATION: "1Gi", REQUESTS_ANNOTATION: "100000"}
    metadata = {"name": "cluster", "annotations": annotations}
    return orjson.dumps({"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": metadata})


QUOTA_ROWS: Final[dict[str, Callable[[Path], AsyncIterator[Row]]]] = {"quota": quota_row, "limits": limit_row}
