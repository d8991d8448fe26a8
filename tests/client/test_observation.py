"""Observing all objects, and reading all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest

from kcp_py.client import EVERYTHING, ObjectChange, ObjectFilter
from kcp_py.client.observation import observe
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.wrapping import WrappedStorage
from kcp_py.watchcache import Fanout
from tests.client.registry import CONFIG_MAPS, LOGICAL_CLUSTERS, NAMESPACES, WIDGETS, Registry, config_map, namespace, open_registry, widget
from tests.watchcache.fanouts import put, running, running_fanout

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
MAPS = CONFIG_MAPS.group_resource


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def test_changes_of_all_kinds_in_all_clusters_are_told_in_order(registry: Registry) -> None:
    """With the value before and after, of the requested resources."""
    seen: list[ObjectChange] = []
    registry.tap.observe(seen.append, concerned=ObjectFilter(ignored=frozenset((LOGICAL_CLUSTERS.group_resource,))), missed=lambda: None)
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    await registry.client.create(OTHER, NAMESPACES, namespace("shop"))
    await registry.client.delete(TEAM, CONFIG_MAPS, "default", "one")
    await registry.fanout.reached(await registry.storage.revision())
    assert [(one.cluster, one.resource, one.namespace, one.name) for one in seen] == [
        (TEAM, MAPS, "default", "one"),
        (OTHER, NAMESPACES.group_resource, "", "shop"),
        (TEAM, MAPS, "default", "one"),
    ]
    assert [(one.value is None, one.previous is None) for one in seen] == [(False, True), (False, True), (True, False)]
    assert seen[2].previous == seen[0].value


@pytest.mark.parametrize("seed", range(5))
async def test_updates_are_shown_by_their_old_and_new_values(seed: int) -> None:
    """A value that was found not to match is not searched again, and every other one is."""
    random = Random(seed)
    concerned = ObjectFilter(contains=((b"a", b"b"), (b"a", b"c")))
    seen: list[tuple[str, bytes | None, bytes | None]] = []
    expected: list[tuple[str, bytes | None, bytes | None]] = []
    stored: dict[str, bytes] = {}
    async with MemoryStorage() as storage, running_fanout(storage) as fanout:
        observe(fanout, "/registry", lambda one: seen.append((one.name, one.value, one.previous)), concerned=concerned, missed=lambda: None)
        for _ in range(300):
            name, value = random.choice("xyz"), random.choice([b"d", b"d", b"a", b"ab", b"ac", b"bc", None])
            previous = stored.pop(name, None)
            if value is not None:
                stored[name] = value
            if concerned.shows(MAPS, value, previous):
                expected.append((name, value, previous))
            if value is None:
                await storage.transact([], [Delete(f"/registry/core/configmaps/team-a/default/{name}")])
            else:
                await put(storage, "team-a", name, value)
        await fanout.reached(await storage.revision())
    assert seen == expected
    assert {(value == b"d", previous == b"ab") for _, value, previous in seen} >= {(True, True), (False, False)}


class _Replaced(WrappedStorage):
    """A store in whose place another one can be put, as when a copy of it is restored."""

    async def replace(self, *values: bytes) -> None:
        self.wrapped = await MemoryStorage().__aenter__()
        for value in values:
            await self.wrapped.transact([], [Put("/registry/core/configmaps/team-a/default/x", value)])


async def test_values_are_searched_again_after_missed_events() -> None:
    """A revision may name another value then."""
    storage = _Replaced(MemoryStorage())
    await storage.replace(b"plain")
    fanout = Fanout(storage, "/registry")
    seen: list[bytes | None] = []
    missed: list[bool] = []
    observe(
        fanout,
        "/registry",
        lambda one: seen.append(one.previous),
        concerned=ObjectFilter(contains=((b"owned",),)),
        missed=lambda: missed.append(True),
    )
    key = "/registry/core/configmaps/team-a/default/x"
    async with running(fanout):
        await fanout.reached(await storage.transact([], [Put(key, b"plain as well")]))
    assert (seen, missed) == ([], [])
    await storage.replace(b"plain", b"owned")
    async with running(fanout):
        await fanout.reached(await storage.transact([], [Put(key, b"plain")]))
    assert (seen, missed) == ([b"owned"], [True])


async def test_what_is_stored_is_read(registry: Registry) -> None:
    """In one cluster or in all, of one resource or of all, custom ones included; and before the end, observers know as much."""
    await registry.establish(TEAM)
    await registry.client.create(TEAM, WIDGETS, widget("w"))
    for cluster in (TEAM, OTHER):
        for name in ("one", "two", "three"):
            await registry.client.create(cluster, CONFIG_MAPS, config_map(name))
    tap = registry.tap

    everything = [(one.cluster, one.name) async for one in tap.stored_objects(None, concerned=EVERYTHING) if one.resource == MAPS]
    assert sorted(everything) == sorted((cluster, name) for cluster in (TEAM, OTHER) for name in ("one", "two", "three"))
    assert registry.fanout.revision == await registry.storage.revision()
    mine = [(one.resource, one.name) async for one in tap.stored_objects(TEAM, concerned=EVERYTHING)]
    assert (WIDGETS.group_resource, "w") in mine
    assert len([name for resource, name in mine if resource == MAPS]) == 3
    found = [one.name async for one in tap.stored_objects(TEAM, concerned=EVERYTHING, resource=WIDGETS.group_resource)]
    assert found == ["w"]


async def test_reading_ends_at_its_limit(registry: Registry) -> None:
    """Within a page or so."""
    for number in range(450):
        await registry.client.create(TEAM, CONFIG_MAPS, config_map(f"m{number}"))
    found = [one async for one in registry.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS, limit=201)]
    assert len(found) == 400
