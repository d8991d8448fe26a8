"""Checks of all objects, which restarts do not repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kcp_py.aio.cooperative import Throttle
from kcp_py.client import ObjectChange, ObjectFilter
from kcp_py.client.scanning import Checkpoint, ScannedPage, ScanProgress
from kcp_py.controllers.garbage import GarbageCollector
from kcp_py.controllers.garbage.checks import CHECK, MOST_CHANGED, MOST_PENDING, Checks
from kcp_py.controllers.garbage.graphs import Graphs
from kcp_py.controllers.runtime.loop import ReconcileLoop
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.logicalcluster import Name
from kcp_py.storage.keys import internal_key
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.opening import open_storage
from tests.client.registry import CONFIG_MAPS, ROOT, Registry, make_crd, open_registry
from tests.controllers.garbage.dependents import add, exists, reference

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
NAME = "garbage-collection"
SOON = 0.01


class Recorded(ScanProgress):
    """Records where scans began."""

    starts: list[str]

    def scan(self, start: str, *, concerned: ObjectFilter) -> AsyncGenerator[ScannedPage, None]:
        self.starts.append(start)
        return super().scan(start, concerned=concerned)


def progress_of(registry: Registry) -> Recorded:
    progress = Recorded(registry.storage, registry.fanout, ROOT, throttle=Throttle())
    progress.starts = []
    return progress


def collect(registry: Registry, *, save_seconds: float = SOON) -> Recorded:
    """Run a garbage collector on a registry."""
    queue = WorkQueue(per_cluster=8)
    progress = progress_of(registry)
    collector = GarbageCollector(
        registry.client, registry.tap, queue, now=lambda: "2026-01-01T00:00:00Z", progress=progress, save_seconds=save_seconds
    )
    registry.supervisor.start("garbage", ReconcileLoop(registry.tap, collector, collector.follow, queue=queue).run)
    return progress


async def saved(registry: Registry) -> Checkpoint:
    """Wait for a checkpoint after which nothing was written, with all objects checked."""
    progress = progress_of(registry)
    found: list[Checkpoint] = []

    async def is_saved() -> bool:
        checkpoint = await progress.load(NAME)
        item = await registry.storage.get(internal_key(ROOT, NAME))
        if checkpoint is None or item is None or checkpoint.position is not None:
            return False
        found[:] = [checkpoint]
        return item.mod_revision == await registry.storage.revision() and checkpoint.revision == item.mod_revision

    await registry.until(is_saved)
    return found[0]


def store(path: Path) -> Any:
    return open_storage("sqlite", path=path / "store.db")


async def prepare(path: Path) -> None:
    """A store with a checkpoint, and two dependents whose owner was deleted afterwards while no collector ran."""
    async with open_registry(store(path)) as registry:
        collect(registry)
        owner = await add(registry, TEAM, "owner")
        await add(registry, TEAM, "child", reference(owner))
        await add(registry, OTHER, "child", reference(await add(registry, OTHER, "owner")))
        await saved(registry)
    async with open_registry(store(path)) as registry:
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")


async def test_a_restart_reads_only_what_changed(tmp_path: Path) -> None:
    """The dependent of an owner that went while no collector ran goes, and stored objects are not read again."""
    await prepare(tmp_path)
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        await saved(registry)
        assert progress.starts == []
        assert await exists(registry, OTHER, "child")


async def test_all_is_read_where_history_is_lost(tmp_path: Path) -> None:
    """Revisions after the checkpoint were compacted: every object is checked."""
    await prepare(tmp_path)
    async with open_registry(store(tmp_path)) as registry:
        await registry.storage.compact(await registry.storage.revision())
        progress = collect(registry)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        await saved(registry)
        assert progress.starts == [""]


async def test_a_store_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """Without a checkpoint every object is checked, and a checkpoint is written."""
    async with open_registry(store(tmp_path)) as registry:
        await add(registry, TEAM, "child", reference(await add(registry, TEAM, "owner")))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        await saved(registry)
        assert progress.starts == [""]


async def test_a_scan_is_continued_after_a_restart(tmp_path: Path) -> None:
    """Objects before the position are checked where their clusters changed since, those after it by the scan."""
    async with open_registry(store(tmp_path)) as registry:
        owners = {}
        for cluster in (TEAM, OTHER):
            owners[cluster] = await add(registry, cluster, "owner")
            await add(registry, cluster, "child", reference(owners[cluster]))
        # The owner in the second cluster goes before the checkpoint, and its dependent is after the position.
        await registry.client.delete(OTHER, CONFIG_MAPS, "default", "owner")
        revision = await registry.storage.revision()
        position = f"{ROOT}/core/configmaps/{OTHER}/"
        await progress_of(registry).save(NAME, Checkpoint(revision, [], position))
        # The other one goes after it, and its dependent is before the position.
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry)
        for cluster in (TEAM, OTHER):
            await registry.until_gone(cluster, CONFIG_MAPS, "default", "child")
        assert progress.starts == [position]


async def test_the_end_of_a_continued_scan_is_remembered_at_once(tmp_path: Path) -> None:
    """So servers that are restarted before their next checkpoint is due do not read the rest each time."""
    async with open_registry(store(tmp_path)) as registry:
        await add(registry, TEAM, "one")
        await progress_of(registry).save(NAME, Checkpoint(await registry.storage.revision(), [], f"{ROOT}/core/configmaps/"))
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry, save_seconds=3600)

        async def is_remembered() -> bool:
            checkpoint = await progress_of(registry).load(NAME)
            return checkpoint is not None and checkpoint.position is None

        await registry.until(is_remembered)
        assert progress.starts == [f"{ROOT}/core/configmaps/"]


async def test_an_idle_store_that_is_compacted_is_not_read_again(tmp_path: Path) -> None:
    """The checkpoint was the last write: a compaction at its revision loses no change."""
    async with open_registry(store(tmp_path)) as registry:
        collect(registry)
        await add(registry, TEAM, "one")
        await saved(registry)
        await registry.storage.compact(await registry.storage.revision())
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry)
        await add(registry, TEAM, "child", reference(await add(registry, TEAM, "owner")))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        await saved(registry)
        assert progress.starts == []


async def test_clusters_that_are_gone_do_not_matter(tmp_path: Path) -> None:
    """A checkpoint may name clusters that were deleted meanwhile."""
    async with open_registry(store(tmp_path)) as registry:
        await add(registry, TEAM, "child", reference(await add(registry, TEAM, "owner")))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
        await progress_of(registry).save(NAME, Checkpoint(await registry.storage.revision(), [Name("gone"), TEAM], None))
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        assert (await saved(registry)).clusters == []
        assert progress.starts == []


async def test_clusters_that_wait_for_a_kind_are_remembered(tmp_path: Path) -> None:
    """An object whose owner has a kind that is not served is checked when the CRD comes, also after a restart."""
    absent = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "00000000-0000-4000-8000-000000000000"}
    async with open_registry(store(tmp_path)) as registry:
        collect(registry)
        await add(registry, TEAM, "child", absent)
        revision = await registry.storage.revision()

        async def remembered() -> bool:
            checkpoint = await progress_of(registry).load(NAME)
            if checkpoint is None or checkpoint.position is not None:
                return False
            return checkpoint.revision >= revision and list(checkpoint.clusters) == [TEAM]

        await registry.until(remembered)
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry)
        await saved(registry)
        assert await exists(registry, TEAM, "child")
        await registry.establish(TEAM, make_crd())
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        assert progress.starts == []


async def test_very_many_changed_clusters_are_not_checked_one_by_one(tmp_path: Path) -> None:
    """One scan of all objects costs less."""
    async with open_registry(store(tmp_path)) as registry:
        await progress_of(registry).save(NAME, Checkpoint(await registry.storage.revision(), [], None))
        for number in range(MOST_CHANGED + 1):
            await add(registry, Name(f"c{number}"), "one")
            await registry.client.delete(Name(f"c{number}"), CONFIG_MAPS, "default", "one")
        await add(registry, TEAM, "child", reference(await add(registry, TEAM, "owner")))
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner")
    async with open_registry(store(tmp_path)) as registry:
        progress = collect(registry, save_seconds=60)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "child")
        assert progress.starts == [""]


async def ignore(change: ObjectChange) -> None:
    del change


async def test_unfinished_work_is_in_the_checkpoint() -> None:
    """Clusters whose keys wait, are with a worker or are retried later are named; after missed changes nothing is written."""
    async with open_registry(MemoryStorage()) as registry:
        queue, progress, missed = WorkQueue(), progress_of(registry), asyncio.Event()
        unresolved = {Name("unresolved")}
        checks = Checks(progress, queue, ignore, unresolved=unresolved, missed=missed, seconds=0)
        await add(registry, TEAM, "one")
        await registry.fanout.reached(await registry.storage.revision())
        await checks.run()
        queue.add(Key(Name("taken"), "", "a"))
        taken = await queue.take()
        queue.add(Key(Name("waiting"), "", "a"))
        queue.add_after(Key(Name("later"), "", CHECK), 60)
        await registry.fanout.reached(await registry.storage.revision())
        await checks.save_if_due()
        checkpoint = await progress.load(NAME)
        assert checkpoint is not None
        assert checkpoint.clusters == ["later", "taken", "unresolved", "waiting"]
        queue.done(taken)
        written = await registry.storage.get(internal_key(ROOT, NAME))

        async def attempt() -> bool:
            await add(registry, TEAM, f"m{await registry.storage.revision()}")
            await registry.fanout.reached(await registry.storage.revision())
            await checks.save_if_due()
            return await registry.storage.get(internal_key(ROOT, NAME)) != written

        missed.set()
        assert not await attempt()
        missed.clear()
        for number in range(MOST_PENDING):
            queue.add(Key(Name(f"c{number}"), "", "a"))
        assert not await attempt()
        queue.close()


async def test_an_idle_collector_writes_nothing() -> None:
    """The write of a checkpoint is not a reason for the next one."""
    async with open_registry(MemoryStorage()) as registry:
        checks = Checks(progress_of(registry), WorkQueue(), ignore, unresolved=(), missed=asyncio.Event(), seconds=0)
        await add(registry, TEAM, "one")
        await registry.fanout.reached(await registry.storage.revision())
        await checks.run()
        for _ in range(2):
            # The first checkpoint of a store takes two writes.
            await checks.save_if_due()
            revision = await registry.storage.revision()
            await registry.fanout.reached(revision)
        await checks.save_if_due()
        assert await registry.storage.revision() == revision


async def test_an_owner_is_released_by_an_update_without_a_graph() -> None:
    """A dependent that stops blocking an owner ends its wait, though the graph of the cluster was dropped."""
    async with open_registry(MemoryStorage()) as registry:
        queue, graphs = WorkQueue(per_cluster=8), Graphs()
        collector = GarbageCollector(registry.client, registry.tap, queue, now=lambda: "2026-01-01T00:00:00Z", graphs=graphs)
        registry.supervisor.start("garbage", ReconcileLoop(registry.tap, collector, collector.follow, queue=queue).run)
        owner = await add(registry, TEAM, "owner")
        await add(registry, TEAM, "held", reference(owner, blocks=True), finalizers=["example.com/hold"])
        await registry.client.delete(TEAM, CONFIG_MAPS, "default", "owner", propagation="Foreground")

        async def waits() -> bool:
            held = await registry.client.get(TEAM, CONFIG_MAPS, "default", "held")
            return "deletionTimestamp" in held["metadata"] and queue.idle

        await registry.until(waits)
        graphs.clear()
        held = await registry.client.get(TEAM, CONFIG_MAPS, "default", "held")
        del held["metadata"]["ownerReferences"]
        await registry.client.update(TEAM, CONFIG_MAPS, held)
        await registry.until_gone(TEAM, CONFIG_MAPS, "default", "owner")
