"""Default objects: which there are, and what reads and writes make of them."""

from __future__ import annotations

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.store.defaults import (
    default_items,
    defaults_of,
    find_default,
    is_default,
    origin_of,
    removal,
    replacement_of,
    storing,
    with_defaults,
)
from kcp_py.storage.contract import Compare, Delete, KeyValue, Put
from tests.registry.store.shelf import CONFIG_MAPS, NAMESPACES, A, Shelf, state_of

pytestmark = pytest.mark.anyio


def test_defaults_are_those_of_the_resource() -> None:
    """In name order, none for most resources, and never at revision 0, which would read as unset."""
    assert list(defaults_of(NAMESPACES, A)) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert defaults_of(CONFIG_MAPS, A) == {}
    assert [origin_of(NAMESPACES, state_of("a", revision)).revision for revision in (0, 9)] == [1, 9]


def test_default_objects_stand_between_stored_ones() -> None:
    """In the order of keys, and hidden by a stored object of the same name."""
    defaults = default_items(NAMESPACES, A)
    assert all(map(is_default, defaults))
    stored = [KeyValue(defaults[1].key, b"stored", 7, 3), KeyValue(defaults[3].key + "-more", b"more", 8, 8)]
    merged = with_defaults(stored, defaults)
    assert [item.key for item in merged] == sorted(item.key for item in (*defaults, stored[1]))
    assert [item.value for item in merged if not is_default(item)] == [b"stored", b"more"]
    assert with_defaults(stored, ()) is stored


async def test_a_default_object_is_found_by_its_name(shelf: Shelf) -> None:
    """None for other names, and for resources without default objects."""
    found = await find_default(shelf.access, A, NAMESPACES, "", "default")
    assert found is not None
    assert (found.key, is_default(found)) == (default_items(NAMESPACES, A)[0].key, True)
    assert await find_default(shelf.access, A, NAMESPACES, "", "other") is None
    assert await find_default(shelf.access, A, CONFIG_MAPS, "default", "default") is None


async def test_the_first_write_stores_a_default_object(shelf: Shelf) -> None:
    """Where nothing is stored yet, under the guards of a create; a stored object is replaced at its revision."""
    cluster_state = state_of("a", created_revision=4)._replace(
        guard=(Compare("cluster", mod_revision=9),), life=(Compare("cluster", create_revision=4),)
    )
    item = default_items(NAMESPACES, cluster_state)[0]
    conditions, operations = await storing(shelf.access, cluster_state, NAMESPACES, item, b"{}", name="default")
    assert (list(conditions), list(operations)) == ([Compare(item.key, mod_revision=0), *cluster_state.guard], [Put(item.key, b"{}")])
    stored = KeyValue(item.key, b"before", 7, 5)
    conditions, operations = await storing(shelf.access, cluster_state, NAMESPACES, stored, b"{}", name="default")
    assert (list(conditions), list(operations)) == ([Compare(item.key, mod_revision=7), *cluster_state.life], [Put(item.key, b"{}")])


async def test_nothing_is_stored_in_a_cluster_that_ends(shelf: Shelf) -> None:
    """403, as for any other new object."""
    cluster_state = state_of("a", created_revision=4)._replace(terminating=True)
    item = default_items(NAMESPACES, cluster_state)[0]
    with pytest.raises(StatusError) as refused:
        await storing(shelf.access, cluster_state, NAMESPACES, item, b"{}", name="default")
    assert refused.value.code == 403


async def test_a_deleted_default_object_comes_again_with_another_uid(shelf: Shelf) -> None:
    """In the transaction of the deletion; any other object goes without a replacement."""
    item = default_items(NAMESPACES, A)[0]
    metadata = orjson.loads(item.value)["metadata"]
    replacement = await replacement_of(shelf.access, A, NAMESPACES, metadata)
    assert replacement is not None
    assert orjson.loads(replacement.value)["metadata"]["uid"] != metadata["uid"]
    conditions, operations = removal(A, NAMESPACES, item, replacement)
    assert (conditions[0], list(operations)) == (Compare(item.key, mod_revision=0), [Put(item.key, replacement.value)])
    assert await replacement_of(shelf.access, A, NAMESPACES, {**metadata, "name": "other"}) is None
    assert list(removal(A, NAMESPACES, item, None)[1]) == [Delete(item.key)]
