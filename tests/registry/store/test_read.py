"""Single objects, and stored objects brought to the served version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import Served
from kcp_py.registry.store import get, load, load_one
from kcp_py.registry.store.read import Current, find, from_storage, to_storage
from kcp_py.storage.contract import KeyValue, Put
from tests.registry.store.shelf import CONFIG_MAPS, NAMESPACES, A, B, Schema, Shelf, config_map, state_of, with_schemas

pytestmark = pytest.mark.anyio


def item_of(revision: int = 5, **fields: Any) -> KeyValue:
    return KeyValue("/k", encode_stored(config_map("one", **fields)), revision, 1)


async def test_an_object_is_found_in_its_cluster_and_namespace_only(shelf: Shelf) -> None:
    """Elsewhere it is not, in upstream's words."""
    revision = await shelf.put("one")
    found = await get(shelf.access, A, CONFIG_MAPS, "default", "one")
    assert found.mod_revision == revision
    for cluster_state, namespace in ((B, "default"), (A, "other")):
        with pytest.raises(StatusError) as caught:
            await get(shelf.access, cluster_state, CONFIG_MAPS, namespace, "one")
        assert (caught.value.code, caught.value.reason, str(caught.value)) == (404, "NotFound", 'configmaps "one" not found')


async def test_what_every_cluster_has_is_found_until_it_is_stored(shelf: Shelf) -> None:
    """With the revision of the cluster's beginning, and its own identity in each cluster."""
    created = state_of("a", created_revision=4)
    found = await get(shelf.access, created, NAMESPACES, "", "default")
    assert (found.mod_revision, found.create_revision) == (4, 0)
    assert found.value != (await get(shelf.access, B, NAMESPACES, "", "default")).value
    await shelf.access.storage.transact([], [Put(found.key, b"{}")])
    assert (await get(shelf.access, created, NAMESPACES, "", "default")).value == b"{}"
    assert await find(shelf.access, created, NAMESPACES, "", "other") is None


@pytest.mark.parametrize(("revision", "data"), [(5, {"old": "x"}), (4, {"new": "default"})], ids=["fresh", "older than the schema"])
async def test_what_the_schema_has_not_seen_is_pruned_and_defaulted(revision: int, data: dict[str, str]) -> None:
    """Objects of the present form are answered as they are stored, without the fields that only answers have."""
    served = with_schemas(CONFIG_MAPS, Schema("default"), fresh_since=5)
    item = item_of(revision, data={"old": "x"})
    expected = config_map("one", data=data)
    assert await load_one(served, item) == expected
    assert await load(served, [item, item]) == [expected, expected]


@pytest.mark.parametrize("labels", [{"a": "b"}, {"a": 1}], ids=["sound", "malformed"])
@pytest.mark.parametrize("revision", [5, 4], ids=["fresh", "older than the schema"])
async def test_an_object_that_is_written_is_decoded_as_often_as_it_is_asked_for(labels: dict[str, Any], revision: int) -> None:
    """Each time as a read decodes it, whatever callers made of the objects before."""
    served = with_schemas(CONFIG_MAPS, Schema("default"), fresh_since=5)
    item = item_of(revision, data={"old": "x"})
    item = item._replace(value=item.value.replace(b'"name":', b'"labels":%b,"name":' % orjson.dumps(labels), 1))
    expected = await load_one(served, item)
    current = Current(served, item)
    for _ in range(3):
        found = await current.load()
        assert found == expected
        found["metadata"].clear()
    assert current.intact is (revision == 5 and labels == {"a": "b"})


async def test_the_served_version_prunes_and_does_not_default() -> None:
    """Defaults of the served version are for requests; objects that are read have those of their stored version."""
    served = with_schemas(CONFIG_MAPS, Schema("served"), Schema("stored"), fresh_since=9)
    assert (await load_one(served, item_of(data={"old": "x"})))["data"] == {"new": "stored"}
    assert (await load_one(served._replace(fresh_since=0), item_of(data={"old": "x"})))["data"] == {}


async def test_objects_are_converted_all_at_once() -> None:
    """One call for a list, which may be a request to a webhook; afterwards each object has the served version."""
    calls: list[tuple[int, str]] = []

    async def convert(objects: Sequence[dict[str, Any]], version: str) -> list[dict[str, Any]]:
        calls.append((len(objects), version))
        return [{**obj, "apiVersion": version, "data": {"converted": version}} for obj in objects]

    resource = replace(CONFIG_MAPS.resource, version="v2", converter=convert)
    served = Served(resource)
    loaded = await load(served, [item_of(), item_of(), item_of()])
    assert [(obj["apiVersion"], obj["data"]) for obj in loaded] == [("v2", {"converted": "v2"})] * 3
    assert (await load_one(served, item_of()))["apiVersion"] == "v2"
    stored = await to_storage(resource, config_map("one"))
    assert (stored["apiVersion"], stored["data"]) == ("v1", {"converted": "v1"})
    assert (await from_storage(resource, stored))["apiVersion"] == "v2"
    assert calls == [(3, "v2"), (1, "v2"), (1, "v1"), (1, "v2")]


async def test_what_is_stored_has_the_defaults_of_its_version() -> None:
    """Objects as new as their definition are read as they are stored, without defaults of the served version."""
    resource = with_schemas(CONFIG_MAPS, Schema("served"), Schema("stored")).resource
    stored = await to_storage(resource, config_map("one", data={"old": "x"}))
    assert stored["data"] == {"new": "stored"}
    assert (await from_storage(resource, stored))["data"] == {"new": "stored"}
