"""Deleting collections as they are stored: marked objects obey the present definition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import Holder, StoredResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes, Operation
from kcp_py.registry.store.collection import Remaining
from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.tenancy import LOGICAL_CLUSTER
from tests.client.registry import CRDS, NAMESPACES, ROOT, WIDGETS, Registry, open_registry, widget
from tests.registry.store.conftest import InterleavingStorage

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
KEY = f"{ROOT}/apiextensions.k8s.io/customresourcedefinitions/{TEAM}/widgets.example.com"
RESOURCE = StoredResource(WIDGETS.group_resource, custom=True, namespaced=None)


@pytest.fixture
async def storage() -> InterleavingStorage:
    return InterleavingStorage(MemoryStorage())


@pytest.fixture
async def registry(storage: InterleavingStorage) -> AsyncIterator[Registry]:
    """A custom resource with two objects, one of which waits for a finalizer when it is deleted."""
    async with open_registry(storage) as opened:
        await opened.establish(TEAM)
        await opened.client.create(TEAM, WIDGETS, widget("free"))
        await opened.client.create(TEAM, WIDGETS, widget("held", finalizers=["a.b/one"]))
        yield opened


def coloured(crd: dict[str, Any]) -> None:
    """Give the definition a property with a default."""
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["color"] = {"type": "string", "default": "red"}


async def held(registry: Registry) -> dict[str, Any]:
    (found,) = (await registry.client.list(TEAM, WIDGETS)).items
    return found


async def test_a_marked_object_has_the_defaults_that_came_after_it(registry: Registry) -> None:
    """Being written again, it counts as one that obeys the present definition, so it has to."""
    await registry.fanout.reached(await registry.rewrite(KEY, coloured))
    assert (await registry.tap.delete_stored(TEAM, RESOURCE)) == Remaining(1, {"a.b/one": 1})
    found = await held(registry)
    assert found["metadata"]["deletionTimestamp"]
    assert found["spec"] == {"size": 1, "color": "red"}


async def test_an_object_that_loses_a_finalizer_has_the_defaults_that_came_after_it(
    registry: Registry, storage: InterleavingStorage
) -> None:
    """Written again, it counts as one that obeys the present definition, even if that changes in the middle."""
    await registry.client.create(TEAM, WIDGETS, widget("both", finalizers=["a.b/one", "a.b/two", "a.b/three"]))
    await registry.client.delete(TEAM, WIDGETS, "default", "both")
    await registry.fanout.reached(await registry.rewrite(KEY, coloured))
    uid = (await registry.client.get(TEAM, WIDGETS, "default", "both"))["metadata"]["uid"]
    await registry.tap.remove_finalizer(TEAM, WIDGETS, "default", "both", finalizer="a.b/one", uid=uid)
    found = await registry.client.get(TEAM, WIDGETS, "default", "both")
    assert (found["metadata"]["finalizers"], found["spec"]) == (["a.b/two", "a.b/three"], {"size": 1, "color": "red"})

    def shaped(crd: dict[str, Any]) -> None:
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["shape"] = {"type": "string", "default": "round"}

    storage.before_write(lambda: registry.rewrite(KEY, shaped), touching="/both")
    await registry.tap.remove_finalizer(TEAM, WIDGETS, "default", "both", finalizer="a.b/two", uid=uid)
    item = await storage.get(f"{ROOT}/example.com/widgets/customresources/{TEAM}/default/both")
    assert item is not None
    assert orjson.loads(item.value)["spec"] == {"size": 1, "color": "red", "shape": "round"}


async def test_a_collection_is_deleted_without_its_crd_where_no_plugin_asks(registry: Registry) -> None:
    """What the cluster serves is not read, or worked out, for objects that are deleted as they are stored."""
    registry.tables.invalidate(TEAM)
    assert await registry.tap.delete_stored(TEAM, RESOURCE, settled=["a.b/one"]) == Remaining(0, {})
    assert registry.tables.cached(TEAM) is None


class Failing(AdmissionPlugin):
    """Fails, without a refusal, for one of the objects that are deleted."""

    operations = frozenset[Operation]({"DELETE"})

    async def validate(self, attributes: Attributes) -> None:
        if attributes.name == "free":
            raise KeyError(attributes.name)


async def test_a_plugin_that_fails_keeps_its_object_and_no_other(registry: Registry) -> None:
    """The others are deleted before the caller sees what has failed, and nothing goes on after that."""
    registry.access.admission = AdmissionChain((Failing(),))
    with pytest.raises(KeyError):
        await registry.tap.delete_stored(TEAM, RESOURCE, settled=["a.b/one"])
    assert (await held(registry))["metadata"]["name"] == "free"


async def test_a_crd_that_changes_in_the_middle_leaves_the_object_for_the_next_time(
    registry: Registry, storage: InterleavingStorage
) -> None:
    """The object stays, and is marked when its deletion is requested again."""
    storage.before_write(lambda: registry.rewrite(KEY, coloured), touching="/held")
    assert (await registry.tap.delete_stored(TEAM, RESOURCE)).objects == 1
    assert "deletionTimestamp" not in (await held(registry))["metadata"]
    await registry.fanout.reached(await registry.storage.revision())
    assert (await registry.tap.delete_stored(TEAM, RESOURCE)).objects == 1
    found = await held(registry)
    assert (found["spec"], bool(found["metadata"]["deletionTimestamp"])) == ({"size": 1, "color": "red"}, True)


HOLDERS = [
    pytest.param(Holder(CRDS, "widgets.example.com", ""), KEY, id="definition"),
    pytest.param(Holder(NAMESPACES, "default", ""), f"{ROOT}/core/namespaces/{TEAM}/default", id="namespace"),
    pytest.param(Holder(LOGICAL_CLUSTER, "cluster", ""), f"{ROOT}/core.kcp.io/logicalclusters/{TEAM}/cluster", id="cluster"),
]


@pytest.mark.parametrize(("holder", "key"), HOLDERS)
async def test_nothing_is_deleted_once_its_holder_is_gone(
    registry: Registry, storage: InterleavingStorage, holder: Holder, key: str
) -> None:
    """What another object of the holder's name holds is left alone, even if the holder is made again in the middle."""
    item = await storage.get(key)
    value = item.value if item is not None else b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","uid":"1"}}'
    await storage.transact([], [Put(key, value)])
    named = holder._replace(uid=orjson.loads(value)["metadata"]["uid"])
    with pytest.raises(StatusError) as refused:
        await registry.tap.delete_stored(TEAM, RESOURCE, holder=named._replace(uid="another"))
    assert refused.value.code == 409

    async def make_again() -> None:
        await storage.transact([], [Delete(key)])
        await storage.transact([], [Put(key, value)])

    storage.before_write(make_again, touching="/widgets/")
    with pytest.raises(StatusError) as refused:
        await registry.tap.delete_stored(TEAM, RESOURCE, holder=named)
    assert (refused.value.code, storage.pending) == (409, 0)
    left = (await storage.range(f"{ROOT}/example.com/widgets/")).items
    assert [item.key.rpartition("/")[2] for item in left] == ["free", "held"]
    assert not any(b"deletionTimestamp" in item.value for item in left)
    await registry.tap.delete_stored(TEAM, RESOURCE, holder=named)
    assert [item.key.rpartition("/")[2] for item in (await storage.range(f"{ROOT}/example.com/widgets/")).items] == ["held"]
