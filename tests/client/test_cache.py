"""Objects by keys and indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kcp_py.client.cache import ObjectCache, by_label, by_owner
from kcp_py.client.keys import Key
from kcp_py.logicalcluster import Name
from tests.client.scripted import item

A, B = Name("team-a"), Name("team-b")
ONE, TWO, OTHER = Key(A, "default", "one"), Key(A, "default", "two"), Key(B, "default", "one")


def owned(name: str, *uids: str) -> dict[str, Any]:
    return item(name, 1, ownerReferences=[{"uid": uid} for uid in uids])


def test_an_index_finds_objects_of_one_cluster() -> None:
    """An object is found under each of its values, under new ones after a change, and never from another cluster."""
    cache = ObjectCache({"owner": by_owner})
    cache.put(ONE, owned("one", "x", "y"))
    cache.put(TWO, owned("two", "x"))
    cache.put(OTHER, owned("one", "x"))
    assert cache.indexed("owner", A, "x") == [ONE, TWO]
    cache.put(ONE, owned("one", "y"))
    assert cache.indexed("owner", A, "x") == [TWO]
    cache.remove(TWO)
    assert cache.indexed("owner", A, "x") == []
    assert cache.indexed("owner", B, "x") == [OTHER]
    with pytest.raises(KeyError):
        cache.indexed("color", A, "x")


def test_an_index_may_come_later() -> None:
    """It has the objects that are there; a second index of the name is refused, the same one is not."""
    cache = ObjectCache()
    cache.put(ONE, item("one", 1, labels={"app": "web"}))
    cache.put(TWO, item("two", 1))
    indexer = by_label("app")
    cache.add_indexer("app", indexer)
    cache.add_indexer("app", indexer)
    assert cache.indexed("app", A, "web") == [ONE]
    with pytest.raises(ValueError, match="an index 'app' already"):
        cache.add_indexer("app", by_owner)


def test_an_indexer_that_fails_costs_one_object_its_index() -> None:
    """The object itself is kept, and goes again."""

    def fragile(obj: Mapping[str, Any]) -> Iterable[str]:
        return [obj["metadata"]["labels"]["app"]]

    cache = ObjectCache({"app": fragile})
    cache.put(ONE, item("one", 1))
    cache.put(TWO, item("two", 1, labels={"app": "web"}))
    assert cache.indexed("app", A, "web") == [TWO]
    assert cache.remove(ONE) is not None
    assert len(cache) == 1


def test_what_is_read_may_be_changed() -> None:
    """Readers get objects of their own, by cluster and namespace."""
    cache = ObjectCache()
    cache.put(ONE, item("one", 1))
    cache.put(OTHER, item("one", 1))
    found = cache.get(ONE)
    assert found is not None
    found["metadata"]["name"] = "changed"
    assert cache.get(ONE) == item("one", 1)
    assert (cache.keys(A), cache.keys(B, "kube-system"), sorted(cache.keys()), len(cache)) == ([ONE], [], [ONE, OTHER], 2)
    assert cache.remove(ONE) is not None
    assert (cache.remove(ONE), cache.get(ONE), cache.clusters) == (None, None, [B])
