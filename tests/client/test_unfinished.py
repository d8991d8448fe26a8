"""The record of unfinished work."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
import pytest

from kcp_py.client.keys import Key
from kcp_py.client.unfinished import UnfinishedWork
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Put
from kcp_py.storage.keys import internal_key
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, NAMESPACES, ROOT, Registry, config_map, namespace, open_registry

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
WORK = UnfinishedWork(0, {"namespace": [Key(TEAM, "", "shop")]}, {"/registry/core/namespaces/": "/registry/core/namespaces/b"})


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def names(registry: Registry, after: int) -> list[str]:
    return [change.name async for change in registry.tap.work.changes(after, [CONFIG_MAPS.group_resource])]


async def test_a_record_is_loaded_as_it_was_saved(registry: Registry) -> None:
    """With keys of objects in all clusters, and the positions at which later readers begin."""
    assert await registry.tap.work.load() is None
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    await registry.tap.work.save(WORK)
    assert await registry.tap.work.load() == WORK
    assert registry.tap._followers.starts == WORK.positions


async def test_a_long_history_is_left_to_the_reads_of_objects(registry: Registry) -> None:
    """The latest revisions count, and a transaction of very many objects ends the changes early."""
    for name in ("one", "two", "three"):
        await registry.client.create(TEAM, CONFIG_MAPS, config_map(name))
    await registry.fanout.reached(await registry.storage.revision())
    found = [change.name async for change in registry.tap.work.changes(0, [CONFIG_MAPS.group_resource], most=2)]
    assert found == ["two", "three"]
    keys = registry.tap._keys(CONFIG_MAPS.group_resource)
    puts = [Put(keys.object_key(TEAM, "default", f"of-{number}"), orjson.dumps(config_map(f"of-{number}"))) for number in range(5)]
    await registry.storage.transact([], puts)
    await registry.fanout.reached(await registry.storage.revision())
    found = [change.name async for change in registry.tap.work.changes(0, [CONFIG_MAPS.group_resource], most=3)]
    assert found == ["two", "three", "of-0"]


@pytest.mark.parametrize(
    "change",
    [
        {"keys": []},
        {"keys": {"a": [["b", "c"]]}},
        {"keys": {"a": [[1, "", "c"]]}},
        {"keys": {"a": 1}},
        {"keys": {"a": [["*", "", "c"]]}},
        {"positions": {"a": 1}},
        {"revision": -1},
    ],
    ids=str,
)
async def test_what_is_no_record_is_not_used(registry: Registry, change: dict[str, object]) -> None:
    """Another program has stored something else."""
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    created = await registry.storage.revision() + 1
    value = {"created": created, "revision": 0, "keys": {}, "positions": {}}
    key = internal_key(ROOT, "unfinished-work")
    await registry.storage.transact([], [Put(key, orjson.dumps(value))])
    assert await registry.tap.work.load() is not None
    await registry.storage.transact([], [Put(key, orjson.dumps(value | change))])
    assert await registry.tap.work.load() is None


async def test_changes_of_resources_are_read_as_far_as_they_are_known(registry: Registry) -> None:
    """After a revision, of the resources that were asked for; where a part was compacted, the rest."""
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    first = await registry.storage.revision()
    await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("two"))
    second = await registry.storage.revision()
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("three"))
    last = await registry.storage.revision()
    await registry.fanout.reached(last)
    assert await names(registry, 0) == ["one", "two", "three"]
    assert await names(registry, first) == ["two", "three"]
    assert await names(registry, last) == await names(registry, last + 9) == []
    await registry.storage.compact(second)
    assert await names(registry, 0) == ["three"]


async def test_only_objects_count_as_changes(registry: Registry) -> None:
    """Writes of the server's own keys do not cause another record."""
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    changed = await registry.storage.revision()
    await registry.tap.work.save(WORK)
    await registry.fanout.reached(await registry.storage.revision())
    assert registry.tap.work.changed == changed
