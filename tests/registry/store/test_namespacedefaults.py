"""Default objects of namespaces: what reads of the store find, and writes that race with the end of their namespace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.namespaces import namespace_keys, namespace_origin
from kcp_py.registry.resource import Origin
from kcp_py.registry.store.namespacedefaults import count_visible, find_in_namespace, namespace_items_at, namespace_items_everywhere
from kcp_py.storage.contract import Compare, Delete, KeyValue, Put
from tests.registry.store.conftest import NAMESPACE_KEY, TEAM, World
from tests.registry.store.shelf import RESOURCES, Shelf, state_of

pytestmark = pytest.mark.anyio

ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
ACCOUNT_KEY = f"/registry/core/serviceaccounts/{TEAM}/game/default"
CREATED = Origin("cluster-uid", "2024-01-01T00:00:00Z", 4)
KEYS = namespace_keys("/registry")


def namespace_of(uid: str, *, mod: int = 9, create: int = 7, **metadata: str) -> KeyValue:
    """A stored namespace."""
    value = orjson.dumps({"metadata": {"uid": uid, "creationTimestamp": "2025-01-01T00:00:00Z", **metadata}})
    return KeyValue("key", value, mod, create)


def test_what_a_namespace_gives() -> None:
    """Its uid, time and revision; nothing while it terminates, where there is none, and where others have stored something else."""
    assert namespace_origin("a", CREATED, "x", namespace_of("u")) == Origin("u", "2025-01-01T00:00:00Z", 7)
    assert namespace_origin("a", CREATED, "x", None) is None
    assert namespace_origin("a", CREATED, "x", namespace_of("u", deletionTimestamp="2025-01-01T00:00:00Z")) is None
    assert namespace_origin("a", CREATED, "x", KeyValue("key", b"[]", 9, 7)) is None


def test_a_default_namespace_gives_the_same_before_and_after_it_is_stored() -> None:
    """It has the revision of its cluster as long as it has its first uid, and that of its last write when it came again."""
    first = namespace_origin("a", CREATED, "default", None)
    assert first is not None
    assert (first.created_at, first.revision) == (CREATED.created_at, CREATED.revision)
    stored = namespace_origin("a", CREATED, "default", namespace_of(first.uid, creationTimestamp=CREATED.created_at))
    assert stored == first
    again = namespace_origin("a", CREATED, "default", namespace_of("other"))
    assert again is not None
    assert (again.uid, again.revision) == ("other", 9)


async def put_namespace(shelf: Shelf, cluster: str, name: str) -> int:
    value = orjson.dumps({"metadata": {"name": name, "uid": f"{cluster}-{name}", "creationTimestamp": "2025-01-01T00:00:00Z"}})
    return await shelf.access.storage.transact([], [Put(KEYS.object_key(Name(cluster), "", name), value)])


async def test_items_are_in_the_order_of_their_keys(shelf: Shelf) -> None:
    """From a key on, up to one more than a page may need; as they were at a revision."""
    accounts, state = RESOURCES["serviceaccounts"], state_of("a")
    before = await put_namespace(shelf, "a", "x")
    after = await put_namespace(shelf, "a", "x-y")
    items = await namespace_items_at(shelf.access, accounts, state, after)
    keys = [item.key for item in items]
    assert keys == sorted(keys)
    assert [accounts.keys.parse(key).namespace for key in keys[-2:]] == ["x-y", "x"]
    assert [item.mod_revision for item in items] == [1, 1, 1, 1, after, before]
    assert await namespace_items_at(shelf.access, accounts, state, after, start=keys[3]) == items[3:]
    assert await namespace_items_at(shelf.access, accounts, state, before) == [item for item in items if item.mod_revision != after]
    assert await namespace_items_at(shelf.access, accounts, state, after, namespace="x-y") == items[4:5]
    assert await namespace_items_at(shelf.access, accounts, state, after, namespace="none") == []
    assert await namespace_items_at(shelf.access, accounts, state._replace(terminating=True), after) == []


async def test_items_of_all_clusters_are_those_of_each(shelf: Shelf) -> None:
    """Clusters that are not asked for are left out; a page gets one item more than it holds, at least."""
    accounts = RESOURCES["serviceaccounts"]
    for cluster in ("a", "b", "c", "d"):
        revision = await put_namespace(shelf, cluster, f"of-{cluster}")
    states = [state_of("b"), state_of("d")]
    expected = [item for state in states for item in await namespace_items_at(shelf.access, accounts, state, revision)]
    assert await namespace_items_everywhere(shelf.access, accounts, states, revision) == expected
    for limit in range(1, len(expected)):
        found = await namespace_items_everywhere(shelf.access, accounts, states, revision, limit=limit)
        assert found == expected[: len(found)]
        assert len(found) > limit
    assert await namespace_items_everywhere(shelf.access, accounts, [], revision) == []


async def test_what_is_hidden_is_not_counted(shelf: Shelf) -> None:
    """A stored object hides one; many are not looked up."""
    accounts, state = RESOURCES["serviceaccounts"], state_of("a")
    items = await namespace_items_at(shelf.access, accounts, state, await put_namespace(shelf, "a", "x"))
    revision = await shelf.access.storage.transact([], [Put(items[0].key, b"{}")])
    assert await count_visible(shelf.access, items, revision) == 4
    assert await count_visible(shelf.access, items, revision - 1) == 5
    assert await count_visible(shelf.access, items * 20, revision) == -1


async def test_only_the_name_that_namespaces_have_is_looked_for(shelf: Shelf) -> None:
    """With the condition under which it may be stored."""
    accounts, state, storage = RESOURCES["serviceaccounts"], state_of("a"), shelf.access.storage
    revision = await put_namespace(shelf, "a", "x")
    found = await find_in_namespace(storage, accounts, state, "x", "default")
    assert found is not None
    assert found[1] == Compare(KEYS.object_key(Name("a"), "", "x"), mod_revision=revision)
    virtual = await find_in_namespace(storage, accounts, state, "default", "default")
    assert virtual is not None
    assert virtual[1] == Compare(KEYS.object_key(Name("a"), "", "default"), mod_revision=0)
    assert await find_in_namespace(storage, accounts, state, "x", "other") is None
    assert await find_in_namespace(storage, RESOURCES["secrets"], state, "x", "default") is None


async def label(world: World) -> object:
    return await world.update("default", lambda obj: obj["metadata"].update(labels={"a": "b"}), ACCOUNTS, namespace="game")


async def delete(world: World) -> object:
    return await world.delete("default", ACCOUNTS, namespace="game")


async def remove_last_finalizer(world: World) -> object:
    return await world.update("default", lambda obj: obj["metadata"].pop("finalizers"), ACCOUNTS, namespace="game")


async def mark(world: World) -> None:
    await world.registry.rewrite(NAMESPACE_KEY, lambda obj: obj["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))


async def remove(world: World) -> None:
    await world.registry.storage.transact([], [Delete(NAMESPACE_KEY), Delete(ACCOUNT_KEY)])


@pytest.mark.parametrize("write", [pytest.param(label, id="changed"), pytest.param(delete, id="deleted")])
@pytest.mark.parametrize("end", [pytest.param(mark, id="begins"), pytest.param(remove, id="is over")])
async def test_nothing_is_stored_behind_the_end_of_a_namespace(
    world: World, write: Callable[[World], Awaitable[object]], end: Callable[[World], Awaitable[None]]
) -> None:
    """A write that has read the object before is worked out again, and finds none."""
    await world.client.create(TEAM, GroupVersionResource("", "v1", "namespaces"), {"metadata": {"name": "game"}})
    world.storage.before_write(lambda: end(world), touching="serviceaccounts")
    with pytest.raises(StaleStateError):
        await write(world)
    with pytest.raises(StatusError) as refused:
        await write(world)
    assert refused.value.code == 404
    assert await world.stored(ACCOUNT_KEY) is None


async def test_a_namespace_of_the_same_name_has_another_object(world: World) -> None:
    """The object of the first one is not stored in the second."""
    namespaces = GroupVersionResource("", "v1", "namespaces")
    await world.client.create(TEAM, namespaces, {"metadata": {"name": "game"}})

    async def again() -> None:
        await remove(world)
        await world.client.create(TEAM, namespaces, {"metadata": {"name": "game"}})

    world.storage.before_write(again, touching="serviceaccounts")
    with pytest.raises(StaleStateError):
        await label(world)
    assert await world.stored(ACCOUNT_KEY) is None
    await label(world)
    stored = await world.stored(ACCOUNT_KEY)
    assert stored is not None
    assert stored["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize("write", [pytest.param(delete, id="deleted"), pytest.param(remove_last_finalizer, id="let go")])
async def test_a_stored_one_goes_with_its_namespace_and_does_not_come_back(
    world: World, write: Callable[[World], Awaitable[object]]
) -> None:
    """Its deletion is about to replace it when the namespace begins to terminate: it is then deleted for good."""
    await world.client.create(TEAM, GroupVersionResource("", "v1", "namespaces"), {"metadata": {"name": "game"}})
    await label(world)
    if write is remove_last_finalizer:
        await world.update("default", lambda obj: obj["metadata"].update(finalizers=["example.com/x"]), ACCOUNTS, namespace="game")
        await delete(world)
    world.storage.before_write(lambda: mark(world), touching="serviceaccounts")
    with pytest.raises(StaleStateError):
        await write(world)
    await write(world)
    assert await world.stored(ACCOUNT_KEY) is None
