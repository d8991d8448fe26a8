"""Reads of the whole store that a later process continues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kcp_py.aio.cooperative import Throttle
from kcp_py.client import EVERYTHING, ObjectFilter
from kcp_py.client.scanning import Checkpoint, ScanProgress
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Put
from kcp_py.storage.keys import internal_key
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.opening import open_storage
from tests.client.registry import CONFIG_MAPS, LOGICAL_CLUSTERS, ROOT, Registry, config_map, open_registry

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
NAME = "reader"
MAPS = ObjectFilter(ignored=frozenset((LOGICAL_CLUSTERS.group_resource,)))


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


def progress_of(registry: Registry) -> ScanProgress:
    return ScanProgress(registry.storage, registry.fanout, ROOT, throttle=Throttle())


async def test_a_checkpoint_outlives_the_process(tmp_path: Path) -> None:
    """The next process loads what the last one saved."""
    checkpoint = Checkpoint(0, [TEAM, OTHER], "/registry/x\x00")
    async with open_registry(open_storage("sqlite", path=tmp_path / "kcp.db")) as registry:
        assert await progress_of(registry).load(NAME) is None
        written = await progress_of(registry).save(NAME, checkpoint)
        assert written == await registry.storage.revision()
    async with open_registry(open_storage("sqlite", path=tmp_path / "kcp.db")) as registry:
        assert await progress_of(registry).load(NAME) == checkpoint
        done = Checkpoint(1, [], None)
        await progress_of(registry).save(NAME, done)
        assert await progress_of(registry).load(NAME) == done


async def test_a_checkpoint_of_another_store_is_not_used(registry: Registry) -> None:
    """The revisions of a store into which all keys were copied mean something else."""
    await progress_of(registry).save(NAME, Checkpoint(1, [], None))
    key = internal_key(ROOT, NAME)
    item = await registry.storage.get(key)
    assert item is not None
    async with open_registry(MemoryStorage()) as other:
        for number in range(5):
            await other.storage.transact([], [Put(f"/other/{number}", b"x")])
        await other.storage.transact([], [Put(key, item.value)])
        assert await progress_of(other).load(NAME) is None


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"created":1}', b'{"created":1,"revision":1,"clusters":[1],"position":null}'])
async def test_a_damaged_checkpoint_is_not_used(registry: Registry, value: bytes) -> None:
    """Other software has stored something else."""
    await registry.storage.transact([], [Put(internal_key(ROOT, NAME), value)])
    assert await progress_of(registry).load(NAME) is None


async def test_changes_name_their_clusters(registry: Registry) -> None:
    """The clusters of the changes after a revision, as far as they concern the reader."""
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("before"))
    progress = progress_of(registry)
    after = await registry.storage.revision()
    await registry.fanout.reached(after)
    assert await progress.changed_clusters(after, concerned=EVERYTHING, most=10) == set()
    await registry.client.create(OTHER, CONFIG_MAPS, config_map("one"))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "before")
    await registry.fanout.reached(await registry.storage.revision())
    assert await progress.changed_clusters(after, concerned=EVERYTHING, most=10) == {TEAM, OTHER}
    assert await progress.changed_clusters(after, concerned=ObjectFilter(contains=((b"nowhere",),)), most=10) == {TEAM}
    assert await progress.changed_clusters(after, concerned=EVERYTHING, most=1) is None


async def test_changes_that_are_not_known_are_reported(registry: Registry) -> None:
    """After a compaction, and with a revision that the store has not reached."""
    progress = progress_of(registry)
    for name in ("one", "two"):
        await registry.client.create(TEAM, CONFIG_MAPS, config_map(name))
    latest = await registry.storage.revision()
    await registry.fanout.reached(latest)
    await registry.storage.compact(latest)
    assert await progress.changed_clusters(latest - 1, concerned=EVERYTHING, most=10) is None
    assert await progress.changed_clusters(latest + 9, concerned=EVERYTHING, most=10) is None


async def test_a_scan_is_continued(registry: Registry) -> None:
    """From the position after each page, a later scan shows the rest: together they show each object once."""
    names = [f"m{number:03}" for number in range(450)]
    for name in names:
        await registry.client.create(TEAM, CONFIG_MAPS, config_map(name))
    progress = progress_of(registry)
    seen: list[str] = []
    position = ""
    pages = 0
    while True:
        scan = progress.scan(position, concerned=MAPS)
        page = await anext(scan, None)
        await scan.aclose()
        if page is None:
            break
        pages += 1
        assert page.position > position
        position = page.position
        seen += [change.name for change in page.objects]
        if not page.objects:
            break
    assert seen == names
    assert pages > 2
