"""The index of each cluster: loaded when it is needed, and never behind a write that was answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from kcp_py.authz.rbac.indexes import RBACIndexes, inherited_index
from kcp_py.logicalcluster import Name
from kcp_py.request.requestinfo import parse_request
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import DamagedError, Delete, KeyValue, Put, RangeResult
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.memory import MemoryStorage
from tests.authz.conftest import binding, role, rule
from tests.client.registry import ROOT, Registry, open_registry

pytestmark = pytest.mark.anyio

GROUP = "rbac.authorization.k8s.io"
A, B = Name("team-a"), Name("team-b")
ALICE = UserInfo("alice")
PODS = parse_request("GET", "/api/v1/pods", {})
ROLES = resource_keys(ROOT, GROUP, "clusterroles", namespaced=False)
BINDINGS = resource_keys(ROOT, GROUP, "clusterrolebindings", namespaced=False)


class CountingStorage(MemoryStorage):
    """Counts reads, and can hold one back."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges = self.gets = 0
        self.held: asyncio.Event | None = None
        self.damaged = ""

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        self.ranges += 1
        found = await super().range(prefix, **more)
        if self.held is not None:
            await self.held.wait()
        if self.damaged.startswith(prefix) and self.damaged:
            kept = [item for item in found.items if item.key != self.damaged]
            raise DamagedError([self.damaged], found._replace(items=kept))
        return found

    async def get(self, key: str) -> KeyValue | None:
        self.gets += 1
        if key == self.damaged:
            raise DamagedError([key])
        return await super().get(key)


@pytest.fixture
async def storage() -> CountingStorage:
    return CountingStorage()


@pytest.fixture
async def registry(storage: CountingStorage) -> AsyncIterator[Registry]:
    async with open_registry(storage) as opened:
        yield opened


@pytest.fixture
async def indexes(registry: Registry) -> RBACIndexes:
    return RBACIndexes(registry.access, registry.fanout, ROOT)


def puts(cluster: Name, resource: str = "pods") -> list[Put]:
    """A role for a resource and alice's binding to it."""
    return [
        Put(ROLES.object_key(cluster, "", "r"), orjson.dumps(role("r", rule("list", resource)))),
        Put(BINDINGS.object_key(cluster, "", "b"), orjson.dumps(binding("b", "r", "User:alice"))),
    ]


async def distributed(registry: Registry) -> None:
    """Wait until listeners have heard of all writes."""
    await registry.fanout.reached(await registry.storage.revision())


async def allowed(indexes: RBACIndexes, cluster: Name = A) -> bool:
    return (await indexes.get(cluster)).allowing(ALICE, PODS) is not None


async def test_a_cluster_is_read_once(registry: Registry, storage: CountingStorage, indexes: RBACIndexes) -> None:
    """Decisions after the first one read nothing, and clusters do not see each other's objects."""
    await registry.storage.transact([], puts(A))
    assert await allowed(indexes)
    reads = (storage.ranges, storage.gets)
    assert await allowed(indexes)
    assert (storage.ranges, storage.gets) == reads
    assert not await allowed(indexes, B)


async def test_a_write_is_seen_before_it_is_answered_and_after(registry: Registry, storage: CountingStorage, indexes: RBACIndexes) -> None:
    """An object with a write under way is read again with each decision, and once more after the write."""
    assert not await allowed(indexes)
    role_put, binding_put = puts(A)
    await registry.access.transact(A, ROLES, [], [role_put])
    indexes.writing(A, [binding_put.key])
    assert not await allowed(indexes)
    await registry.storage.transact([], [binding_put])
    assert await allowed(indexes)
    ranges = storage.ranges
    indexes.written(A, [binding_put.key])
    assert await allowed(indexes)
    await distributed(registry)
    assert await allowed(indexes)
    gets = storage.gets
    assert await allowed(indexes)
    assert (storage.ranges, storage.gets) == (ranges, gets)


async def test_a_write_during_the_first_read(registry: Registry, storage: CountingStorage, indexes: RBACIndexes) -> None:
    """A state that was read before a write does not decide after it."""
    role_put, binding_put = puts(A)
    await registry.storage.transact([], [role_put])
    storage.held = asyncio.Event()
    deciding = asyncio.ensure_future(allowed(indexes))
    while storage.ranges < 1:
        await asyncio.sleep(0)
    storage.held.set()
    storage.held = None
    await registry.access.transact(A, BINDINGS, [], [binding_put])
    await deciding
    assert await allowed(indexes)


async def test_changes_by_other_servers(registry: Registry, indexes: RBACIndexes) -> None:
    """They come with the feed: objects that are added, replaced and removed."""
    assert not await allowed(indexes)
    await registry.storage.transact([], puts(A))
    await distributed(registry)
    assert await allowed(indexes)
    await registry.storage.transact([], puts(A, "secrets"))
    await distributed(registry)
    assert not await allowed(indexes)
    await registry.storage.transact([], puts(A))
    await registry.storage.transact([], [Delete(BINDINGS.object_key(A, "", "b"))])
    await distributed(registry)
    assert not await allowed(indexes)


async def test_a_forgotten_cluster_is_read_again(registry: Registry, indexes: RBACIndexes) -> None:
    """Nothing of it remains, and nothing of it is in what all clusters share."""
    await registry.storage.transact([], puts(A))
    assert await allowed(indexes)
    await registry.storage.transact([], [Delete(put.key) for put in puts(A)])
    indexes.forget(A)
    assert not await allowed(indexes)
    assert inherited_index().allowing(ALICE, PODS) is None


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b'{"subjects":5}', b'{"roleRef":"x","subjects":[1]}', None])
async def test_an_object_that_cannot_be_read_gives_nothing(
    registry: Registry, storage: CountingStorage, indexes: RBACIndexes, value: bytes | None
) -> None:
    """It hides the inherited binding of its name, and other objects of the cluster still count; None stands for damaged bytes."""
    everyone = UserInfo("bob", "", ("system:authenticated",))
    discovery = parse_request("GET", "/api", {})
    key = BINDINGS.object_key(A, "", "system:discovery")
    assert (await indexes.get(A)).allowing(everyone, discovery) is not None
    if value is None:
        storage.damaged = key
    await registry.storage.transact([], [Put(key, value or b"{}"), *puts(A)])
    await distributed(registry)
    for _ in range(2):
        assert (await indexes.get(A)).allowing(everyone, discovery) is None
        assert await allowed(indexes)
        # Read as a whole.
        indexes.forget(A)


async def test_an_index_that_is_read_while_an_object_is_written(registry: Registry, indexes: RBACIndexes) -> None:
    """Once readers see the write, decisions do, too, although the index was evicted and read again before."""
    role_put, binding_put = puts(A)
    await registry.storage.transact([], [role_put])
    indexes.writing(A, [binding_put.key])
    indexes._kept.evict(A)
    assert not await allowed(indexes)
    await registry.storage.transact([], [binding_put])
    assert await allowed(indexes)
    indexes.written(A, [binding_put.key])
    assert await allowed(indexes)


async def test_an_index_that_is_evicted_while_it_is_read(registry: Registry, storage: CountingStorage, indexes: RBACIndexes) -> None:
    """An index that was read before a write does not decide about requests that arrive after it."""
    await registry.storage.transact([], puts(A))
    storage.held = asyncio.Event()
    deciding = asyncio.ensure_future(allowed(indexes))
    while storage.ranges < 1:
        await asyncio.sleep(0)
    indexes._kept.evict(A)
    storage.held.set()
    storage.held = None
    await registry.access.transact(A, BINDINGS, [], [Delete(BINDINGS.object_key(A, "", "b"))])
    await deciding
    assert not await allowed(indexes)


async def test_very_many_changes_of_a_cluster_that_asks_nothing(registry: Registry, indexes: RBACIndexes) -> None:
    """They are not remembered one by one: the index is read again as a whole."""
    await registry.storage.transact([], puts(A))
    assert await allowed(indexes)
    keys = [BINDINGS.object_key(A, "", f"other-{number}") for number in range(1_001)]
    for key in keys:
        indexes.writing(A, [key])
        indexes.written(A, [key])
    assert len(indexes._entries) == len(indexes._kept) == 0
    await registry.access.transact(A, BINDINGS, [], [Delete(BINDINGS.object_key(A, "", "b"))])
    assert not await allowed(indexes)


async def test_memory_follows_the_objects(registry: Registry, indexes: RBACIndexes) -> None:
    """An index counts what it has, and nothing once it is forgotten."""
    before = registry.access.budget.size
    await registry.storage.transact([], puts(A))
    index = await indexes.get(A)
    held = registry.access.budget.size - before
    assert held > index.memory > 0
    await registry.access.transact(A, BINDINGS, [], [Delete(put.key) for put in puts(A)])
    assert (await indexes.get(A)).memory == 0
    assert registry.access.budget.size - before < held
    indexes.forget(A)
    assert registry.access.budget.size == before


async def test_the_write_that_creates_a_cluster(registry: Registry, indexes: RBACIndexes) -> None:
    """A cluster that was asked about before it existed is created by its first binding: the index follows that alone."""
    assert not await allowed(indexes)
    role_put, binding_put = puts(A)
    created = registry.clusters.uncreated(A)
    await registry.access.transact(A, BINDINGS, created.guard, [*created.create_with, role_put, binding_put])
    await distributed(registry)
    assert await allowed(indexes)


async def test_the_current_index_needs_no_read(registry: Registry, indexes: RBACIndexes) -> None:
    """There is one behind a decision, and none before the first, while an object has a write under way, and for a forgotten cluster."""
    assert indexes.current(A) is None
    role_put, binding_put = puts(A)
    await registry.storage.transact([], [role_put, binding_put])
    index = await indexes.get(A)
    assert indexes.current(A) is index
    assert indexes.current(B) is None
    indexes.writing(A, [binding_put.key])
    assert indexes.current(A) is None
    indexes.written(A, [binding_put.key])
    assert await allowed(indexes)
    await distributed(registry)
    assert await allowed(indexes)
    assert indexes.current(A) is not None
    indexes.forget(A)
    assert indexes.current(A) is None
