"""Rows about controllers: changes that reach a worker through an informer and a work queue, in this process.

The bare figure is an `asyncio.Queue` that the same number of keys passes: what any program pays that hands work from one task to another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from kcp_py import WILDCARD, ControlPlane, GroupVersionResource, Informer, Key, Options, Selection, parse_name
from kcp_py.controllers.runtime.queue import WorkQueue
from tests.benchmarks.row import Row

CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
OBJECTS: Final = 20_000
ROUNDS: Final = 5
CLUSTERS: Final = (1, 1_000)


async def queue_row(_: Path) -> AsyncIterator[Row]:
    """Keys through the work queue alone, of one cluster and of many."""
    for clusters in CLUSTERS:
        keys = _keys(clusters)
        ours, theirs = [], []
        for _round in range(ROUNDS):
            ours.append(await _through_work_queue(keys))
            theirs.append(await _through_bare_queue(keys))
        yield _row(f"work queue, keys of {clusters:,} cluster{'s' * (clusters > 1)}", median(ours), median(theirs))


async def informer_row(directory: Path) -> AsyncIterator[Row]:
    """Objects of 1,000 clusters: the first list, and changes, until a worker has taken the key of each and read the object."""
    async with ControlPlane(Options(storage="memory", root_directory=directory / "informer"), controllers=()) as control_plane:
        client = control_plane.client
        keys = _keys(CLUSTERS[-1])
        for key in keys:
            await client.create(key.cluster, CONFIG_MAPS, _config_map(key))
        queue = WorkQueue()
        async with Informer(client, Selection(WILDCARD, CONFIG_MAPS)) as informer:
            informer.on_change(lambda change: queue.add(change.key))
            start = time.process_time()
            await _take(queue, len(keys), informer)
            listed = time.process_time() - start
            start = time.process_time()
            for key in keys:
                await client.create(key.cluster, CONFIG_MAPS, _config_map(key, "again"))
            written = time.process_time() - start
            bare = await _through_bare_queue(keys)
            yield _row("informer and work queue, objects that exist", len(keys) / listed, bare)
            start = time.process_time()
            await _take(queue, len(keys), informer)
            followed = time.process_time() - start
            more = f"{(written + followed) / len(keys) * 1e6:.0f} us of processor with the create, in one process"
            yield _row("informer and work queue, changes", len(keys) / (written + followed), bare, more)


def _keys(clusters: int) -> Sequence[Key]:
    names = [parse_name(f"c{number}") for number in range(clusters)]
    return [Key(names[number % clusters], "default", f"m{number}") for number in range(OBJECTS)]


def _config_map(key: Key, suffix: str = "") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name + suffix, "namespace": key.namespace},
        "data": {"a": "b"},
    }


async def _take(queue: WorkQueue, count: int, informer: Informer) -> None:
    for _ in range(count):
        key = await queue.take()
        assert informer.get(*key) is not None
        queue.done(key)


async def _through_work_queue(keys: Sequence[Key]) -> float:
    """Keys a second of processor time."""
    queue = WorkQueue()

    async def work() -> None:
        for _ in keys:
            queue.done(await queue.take())

    start = time.process_time()
    worker = asyncio.create_task(work())
    for key in keys:
        queue.add(key)
    await worker
    return len(keys) / (time.process_time() - start)


async def _through_bare_queue(keys: Sequence[Key]) -> float:
    """Keys a second of processor time."""
    queue: asyncio.Queue[Key] = asyncio.Queue()

    async def work() -> None:
        for _ in keys:
            await queue.get()
            queue.task_done()

    start = time.process_time()
    worker = asyncio.create_task(work())
    for key in keys:
        queue.put_nowait(key)
    await worker
    return len(keys) / (time.process_time() - start)


def _row(work: str, ours: float, theirs: float, more: str = "") -> Row:
    return Row(work, f"{ours:,.0f}/s", f"{theirs:,.0f}/s", f"{ours / theirs:.1%}", "", more)


INFORMER_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "queue": queue_row,
    "informer": informer_row,
}
