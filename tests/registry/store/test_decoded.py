"""Objects that updates share: found by their bytes, never changed in place, and without effect on the stored bytes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from itertools import count
from typing import Any

import orjson
import pytest

from kcp_py.aio.offload import Inline
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.managedfields.entries import decode_entries
from kcp_py.client import LocalClient
from kcp_py.registry.resource import Served
from kcp_py.registry.store import Current
from kcp_py.registry.store.access import Access
from kcp_py.registry.store.decoded import Decoded, DecodedObjects, shares_objects
from kcp_py.registry.store.weights import decoded_weight
from kcp_py.storage.contract import KeyValue
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, CRDS, WIDGETS, Registry, config_map, make_crd, open_registry, widget
from tests.registry.store.conftest import TEAM, World

pytestmark = pytest.mark.anyio

KEY = "/registry/example.com/widgets/customresources/team-a/default/{}"


class NothingShared(DecodedObjects):
    """Every write decodes for itself."""

    def find(self, served: Served, item: KeyValue) -> Decoded | None:
        del served, item
        return None


async def item_of(world: World, name: str = "one") -> KeyValue:
    item = await world.storage.get(KEY.format(name))
    assert item is not None
    return item


async def updated(world: World, size: int) -> KeyValue:
    """A widget after an update."""
    obj = await world.client.get(TEAM, WIDGETS, "default", "one")
    await world.client.update(TEAM, WIDGETS, {**obj, "spec": {"size": size}}, field_manager="me")
    return await item_of(world)


@pytest.fixture
async def decoded(world: World) -> AsyncIterator[DecodedObjects]:
    """The shared objects of a cluster that has a widget, which are compared with their stored forms after each test."""
    await world.establish()
    await world.client.create(TEAM, WIDGETS, widget("one", labels={"a": "b"}), field_manager="me")
    yield world.registry.access.decoded
    assert world.registry.access.decoded.altered() == []


async def test_an_update_leaves_its_object(world: World, decoded: DecodedObjects) -> None:
    """The next write gets what it would have decoded, and what the managedFields say."""
    item = await updated(world, 2)
    served = await world.served(WIDGETS)
    found = decoded.find(served, item)
    assert found is not None
    assert found is decoded.find(served, item)
    assert orjson.dumps(found.obj) == orjson.dumps(await Current(served, item).load())
    assert found.managed is not None
    said = decode_entries(found.obj["metadata"]["managedFields"], stored=True)
    assert (found.managed.owners, found.managed.times) == (said.owners, said.times)
    assert found.sound


async def test_objects_do_not_keep_their_definition(world: World, decoded: DecodedObjects) -> None:
    """They know which types their managed fields fit, and leave the memory of these to the caches of definitions."""
    item = await updated(world, 2)
    resource = (await world.served(WIDGETS)).resource
    found = decoded.find(await world.served(WIDGETS), item)
    assert found is not None
    assert found.managed is not None
    assert resource.merge_types is not None
    kind = resource.merge_types.get(resource.group_version)
    assert kind is not None
    assert found.managed.versions is resource.merge_types.versions(resource.group_version, kind).key
    assert type(found.managed.versions) is object


async def test_other_bytes_are_decoded(world: World, decoded: DecodedObjects) -> None:
    """An object that another server has written is not the one that was kept, whatever its revision is."""
    served = await world.served(WIDGETS)
    kept = decoded.find(served, await updated(world, 2))
    await world.rewrite(KEY.format("one"), lambda obj: obj["spec"].update(size=7))
    item = await item_of(world)
    found = decoded.find(served, item)
    assert found is not None
    assert found is not kept
    assert found.obj["spec"] == {"size": 7}
    assert (found.managed, found.sound) == (None, False)
    assert await updated(world, 8) != item


async def test_a_changed_definition_shares_nothing_old(world: World, decoded: DecodedObjects) -> None:
    """What an earlier schema let through is decoded, pruned and validated by the present one."""
    item = await updated(world, 2)
    crd = make_crd()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {"colour": {"type": "string"}}
    versions = {"spec": {"versions": crd["spec"]["versions"]}}
    await world.client.patch(TEAM, CRDS, "", "widgets.example.com", document=versions)
    served = await world.served(WIDGETS)
    assert item.mod_revision < served.fresh_since
    assert decoded.find(served, item) is None
    obj = await world.client.get(TEAM, WIDGETS, "default", "one")
    assert (await world.client.update(TEAM, WIDGETS, {**obj, "spec": {"colour": "red", "size": 1}}))["spec"] == {"colour": "red"}


async def test_a_malformed_object_is_not_shared(world: World, decoded: DecodedObjects) -> None:
    """Its decoded form differs from its bytes."""
    await world.rewrite(KEY.format("one"), lambda obj: obj["metadata"].update(labels={"a": 1}))
    assert decoded.find(await world.served(WIDGETS), await item_of(world)) is None


async def test_kinds_with_rules_of_their_own_share_nothing(world: World, decoded: DecodedObjects) -> None:
    """Their rules may change the parts of objects in place."""
    await world.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    await world.client.update(TEAM, CONFIG_MAPS, config_map("one") | {"data": {"a": "c"}})
    assert len(decoded) == 0
    assert not shares_objects((await world.served(CONFIG_MAPS)).resource)
    assert shares_objects((await world.served(WIDGETS)).resource)


async def test_memory_is_bounded(world: World, decoded: DecodedObjects) -> None:
    """The objects that were written last stay; one that is larger than all memory is not kept."""
    served = await world.served(WIDGETS)
    item = await updated(world, 2)
    found = decoded.find(served, item)
    assert found is not None
    few = DecodedObjects(3 * (1536 + len(item.value) + decoded_weight(item.value) - found.saved))
    for number in range(5):
        few.keep(str(number), found)
    assert len(few) == 3
    assert few.find(served, item._replace(key="4")) is found
    assert few.find(served, item._replace(key="1")) is not found
    none = DecodedObjects(10)
    none.keep("0", found)
    assert len(none) == 0


async def test_objects_share_their_owners(world: World, decoded: DecodedObjects) -> None:
    """Objects of one manager have the sets of fields in common, and count them once; the stored bytes are those of their writes."""
    served = await world.served(WIDGETS)
    await world.client.create(TEAM, WIDGETS, widget("two", labels={"a": "b"}), field_manager="me")
    one = decoded.find(served, await updated(world, 2))
    obj = await world.client.get(TEAM, WIDGETS, "default", "two")
    await world.client.update(TEAM, WIDGETS, {**obj, "spec": {"size": 3}}, field_manager="me")
    two = decoded.find(served, await item_of(world, "two"))
    assert one is not None
    assert two is not None
    assert one.managed is not None
    assert two.managed is not None
    assert next(iter(one.managed.owners.values())) is next(iter(two.managed.owners.values()))
    assert two.obj["metadata"]["managedFields"][0]["fieldsV1"] is one.obj["metadata"]["managedFields"][0]["fieldsV1"]
    assert (one.saved, two.saved > 0) == (0, True)
    again = decoded.find(served, await updated(world, 3))
    assert again is not None
    assert again.saved == 0


@pytest.mark.parametrize("kept", [True, False])
async def test_an_apply_of_other_values_changes_nothing_else(world: World, decoded: DecodedObjects, *, kept: bool) -> None:
    """It is stored as one that is merged: pruned, with its time, and with a new generation; and it may be refused."""
    config = widget("one", labels={"a": "b"})
    await world.client.apply(TEAM, WIDGETS, config | {"spec": {"size": 5}}, field_manager="you", force=True)
    before = await world.client.get(TEAM, WIDGETS, "default", "one")
    if not kept:
        await world.rewrite(KEY.format("one"), lambda obj: obj["spec"].update(unknown=1))
    world.registry.access.clock = lambda: 1_900_000_000.0
    applied = await world.client.apply(TEAM, WIDGETS, config | {"spec": {"size": 9}}, field_manager="you")
    assert applied["spec"] == {"size": 9}
    assert applied["metadata"]["generation"] == before["metadata"]["generation"] + 1
    mine = [entry for entry in applied["metadata"]["managedFields"] if entry["manager"] == "you"]
    assert [(entry["operation"], entry["time"]) for entry in mine] == [("Apply", "2030-03-17T17:46:40Z")]
    stored = (await item_of(world)).value
    with pytest.raises(StatusError, match="invalid"):
        await world.client.apply(TEAM, WIDGETS, config | {"spec": {"size": 9}, "kind": "Else"}, field_manager="you")
    with pytest.raises(StatusError, match="expected numeric"):
        await world.client.apply(TEAM, WIDGETS, config | {"spec": {"size": "9"}}, field_manager="you")
    assert (await item_of(world)).value == stored
    if not kept:
        assert decoded.altered() == []
    again = await world.client.apply(TEAM, WIDGETS, config | {"spec": {"size": 9}}, field_manager="you")
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]


async def test_changes_in_place_are_found(world: World) -> None:
    """The check behind the tests of this module sees a change of a part."""
    await world.establish()
    await world.client.create(TEAM, WIDGETS, widget("one"))
    item = await updated(world, 2)
    decoded = world.registry.access.decoded
    found = decoded.find(await world.served(WIDGETS), item)
    assert found is not None
    assert decoded.altered() == []
    found.obj["spec"]["size"] = 3
    assert decoded.altered() == [item.key]


SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "maximum": 3},
        "flag": {"type": "boolean"},
        "ratio": {"type": "number"},
        "mode": {"type": "string", "default": "safe"},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}, "value": {"type": "integer"}, "deep": {"type": "integer", "default": 1}},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
    },
}
STATUS = {"type": "object", "properties": {"phase": {"type": "string"}}}
VALUES: dict[str, list[Any]] = {
    "size": [0, 1, 2, 9, True, 1.0, None],
    "flag": [True, False, 1],
    "ratio": [0, 1, 1.5, -0.0],
    "mode": ["safe", "fast", None],
    "items": [[], [{"key": "a"}], [{"key": "b", "value": 1}, {"key": "a", "value": 2}], [{"key": "a"}, {"key": "a"}], [{"value": 1}], None],
    "free": [{}, {"a": 1}, {"a": True}, {"a": {"b": [1, {"c": None}]}}, {"a": {"b": [1.0]}}],
    "fixed": ["a", "a", "b"],
    "unknown": [1],
}
METADATA: list[dict[str, Any]] = [
    *[{}] * 8,
    {"labels": {"a": "b"}},
    {"labels": {"a": "!"}},
    {"labels": {}},
    {"annotations": {"a": "b", "kcp.io/cluster": "other"}},
    {"finalizers": ["x.io/a"]},
    {"finalizers": ["a b"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]},
    {"generation": 7},
    {"managedFields": []},
    {
        "managedFields": [
            {
                "manager": "x",
                "operation": "Update",
                "apiVersion": "example.com/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:size": {}}},
            }
        ]
    },
    {"resourceVersion": "1"},
    {"uid": "2"},
]


def definition() -> dict[str, Any]:
    crd = make_crd()
    crd["spec"]["versions"][0] |= {
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count"}},
    }
    return crd


async def write(client: LocalClient, chance: random.Random) -> None:
    """One random write of one of three widgets, which may be refused."""
    name, manager, dry_run = chance.choice(["one", "two", "three"]), chance.choice(["me", "you", "kubectl"]), chance.random() < 0.1
    spec = {field: chance.choice(values) for field, values in VALUES.items() if chance.random() < 0.25}
    verb = chance.choice(
        ["update", "update", "apply", "apply", "merge", "json", "status", "scale", "delete" if chance.random() < 0.2 else "update"]
    )
    metadata = chance.choice(METADATA)
    own: dict[str, Any] = {"dry_run": dry_run, "field_manager": manager}
    config = widget(name) | {"spec": spec}
    match verb:
        case "apply":
            config["metadata"] |= {field: value for field, value in metadata.items() if field != "managedFields"}
            await client.apply(TEAM, WIDGETS, config, force=chance.random() < 0.5, **own)
        case "delete":
            await client.delete(TEAM, WIDGETS, "default", name)
        case "merge":
            await client.patch(TEAM, WIDGETS, "default", name, document={"spec": spec, "metadata": metadata}, **own)
        case "json":
            document = [{"op": "add", "path": f"/spec/{field}", "value": value} for field, value in spec.items()]
            await client.patch(TEAM, WIDGETS, "default", name, document=document, patch_type="application/json-patch+json", **own)
        case "scale":
            await client.patch(
                TEAM, WIDGETS, "default", name, document={"spec": {"replicas": chance.randrange(5)}}, subresource="scale", **own
            )
        case "status":
            obj = await client.get(TEAM, WIDGETS, "default", name)
            await client.update(
                TEAM, WIDGETS, obj | {"spec": spec, "status": {"phase": chance.choice(["a", "b"])}}, subresource="status", **own
            )
        case _:
            obj = await client.get(TEAM, WIDGETS, "default", name)
            obj["metadata"] |= metadata
            obj["spec"] = {**(obj.get("spec") or {}), **spec}
            if chance.random() < 0.3:
                obj["spec"] = dict(reversed(obj["spec"].items()))
            await client.update(TEAM, WIDGETS, obj, **own)


async def outcome(registry: Registry, seed: int) -> str:
    """What a client is told about a random write, the same for the same seed and store."""
    try:
        await write(registry.client, random.Random(seed))
    except StatusError as error:
        return f"{error.code} {error.message}"
    return ""


def started(access: Access, numbers: Any) -> None:
    """Let the same writes give the same objects."""
    access.new_uid = lambda: f"uid-{next(numbers)}"
    access.clock = lambda: 1_700_000_000.0 + next(numbers) // 3


@pytest.mark.parametrize("seed", range(6))
async def test_sharing_changes_nothing(seed: int) -> None:
    """Random writes are answered the same, and leave the same bytes, whether objects are shared or decoded by each write."""
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(open_registry(MemoryStorage())) for _ in range(2)]
        other.access.decoded = NothingShared()
        for registry in (one, other):
            await registry.clusters.ensure(TEAM)
            started(registry.access, count())
            await registry.establish(TEAM, definition())
        refused = 0
        for step in range(250):
            answers = [await outcome(registry, seed * 1000 + step) for registry in (one, other)]
            assert answers[0] == answers[1]
            refused += bool(answers[0])
            for name in ("one", "two", "three"):
                values = [item and item.value for item in [await registry.storage.get(KEY.format(name)) for registry in (one, other)]]
                assert values[0] == values[1]
            assert one.access.decoded.altered() == []
        assert len(one.access.decoded) == 3
        assert refused < 200


async def test_an_apply_begins_with_no_parts_that_it_would_change(world: World, decoded: DecodedObjects) -> None:
    """Fields that the schema does not have are dropped from the object that an apply makes, and not from the shared one."""
    crd = make_crd()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "deep": {"type": "object", "properties": {"b": {"type": "integer", "default": 4}}}},
    }
    await world.client.patch(TEAM, CRDS, "", "widgets.example.com", document={"spec": {"versions": crd["spec"]["versions"]}})
    await world.rewrite(KEY.format("one"), lambda obj: obj["spec"].update(size=1, deep={"unknown": 1}))
    served, item = await world.served(WIDGETS), await item_of(world)
    found = decoded.find(served, item)
    assert found is not None
    assert not found.conforms()
    decoded.keep(item.key, found)
    config = widget("one", labels={"c": "!"}) | {"spec": {"size": 1}}
    with pytest.raises(StatusError):
        await world.client.apply(TEAM, WIDGETS, config, force=True)
    assert decoded.altered() == []
    applied = await world.client.apply(TEAM, WIDGETS, widget("one") | {"spec": {"size": 1}}, force=True)
    assert applied["spec"] == {"size": 1, "deep": {"b": 4}}
    assert applied["metadata"]["generation"] == found.obj["metadata"]["generation"] + 1


async def test_nulls_of_an_apply_stay_until_another_write_drops_them(world: World, decoded: DecodedObjects) -> None:
    """An apply puts a null into an embedded object that a later apply drops, which the generation counts, as without shared objects."""
    crd = make_crd()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "template": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    await world.client.patch(TEAM, CRDS, "", "widgets.example.com", document={"spec": {"versions": crd["spec"]["versions"]}})
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": None}}
    await world.client.apply(TEAM, WIDGETS, widget("one") | {"spec": {"size": 1}}, field_manager="other")
    found = decoded.find(await world.served(WIDGETS), await item_of(world))
    assert found is not None
    assert found.conforms()
    first = await world.client.apply(TEAM, WIDGETS, widget("one") | {"spec": {"template": template}}, field_manager="one")
    assert first["spec"]["template"] == template
    assert decoded.altered() == []
    second = await world.client.apply(TEAM, WIDGETS, widget("one") | {"spec": {"size": 1}}, field_manager="two")
    assert second["spec"]["template"]["metadata"] == {}
    assert second["metadata"]["generation"] == first["metadata"]["generation"] + 1


async def test_what_a_write_makes_of_an_object_that_conforms_does_so_too(world: World, decoded: DecodedObjects) -> None:
    """It is not worked out again, and also large objects are shared with applies."""
    served = await world.served(WIDGETS)
    first = decoded.find(served, await updated(world, 2))
    assert first is not None
    assert first.conforms()
    obj = await world.client.get(TEAM, WIDGETS, "default", "one")
    large = {**obj["metadata"], "annotations": {"a": "x" * Inline.TRANSFORM}}
    await world.client.update(TEAM, WIDGETS, {**obj, "metadata": large})
    second = decoded.find(served, await item_of(world))
    assert second is not None
    assert second.conforms()


@pytest.mark.parametrize("large", [False, True])
async def test_a_large_object_is_decoded_in_a_thread(world: World, decoded: DecodedObjects, *, large: bool) -> None:
    """An update leaves also a large object. A request that changes a copy of it does not keep the event loop while that is made."""
    obj = await world.client.get(TEAM, WIDGETS, "default", "one")
    text = "x" * (Inline.TRANSFORM if large else 1)
    await world.client.update(TEAM, WIDGETS, {**obj, "spec": {"size": 2}, "metadata": {**obj["metadata"], "annotations": {"a": text}}})
    served, item = await world.served(WIDGETS), await item_of(world)
    found = decoded.find(served, item)
    assert found is not None
    assert found.sound
    loading = Current(served, item, found).load()
    step: Any = None
    with suppress(StopIteration):
        step = loading.send(None)
    loading.close()
    assert isinstance(step, asyncio.Future) is large
