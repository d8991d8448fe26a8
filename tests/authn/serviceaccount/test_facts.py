"""Facts about objects: kept, dropped by every write, and never kept from a time in which they may have changed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
import pytest

from kcp_py.authn.serviceaccount.facts import Fact, ObjectFacts
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import ROOT, Registry, open_registry

pytestmark = pytest.mark.anyio

CLUSTER = Name("a")
STATE = ClusterState(CLUSTER, "uid", 1, "")
KEY = f"{ROOT}/core/secrets/a/default/s"


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    """An empty store with its feed."""
    async with open_registry(MemoryStorage()) as opened:
        yield opened


def stored(uid: str, kind: str = "Secret") -> bytes:
    return orjson.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"uid": uid}})


async def put(registry: Registry, key: str, value: bytes | None) -> None:
    """A write of another server, which arrives by the feed alone."""
    storage = registry.access.storage
    revision = await storage.transact([], [Delete(key) if value is None else Put(key, value)])
    await registry.fanout.reached(revision)


async def test_facts_are_kept_and_dropped(registry: Registry) -> None:
    """A second read finds the fact at hand, until the object is written, or its namespace, or the cluster is another one."""
    facts = ObjectFacts(registry.access, registry.fanout, ROOT)
    heard: list[Name] = []
    facts.listen(heard.append)
    place = facts.place(CLUSTER, "secrets", "default", "s")
    assert await facts.stored(STATE, place) == Fact()
    for uid in ("one", "two"):
        await put(registry, KEY, stored(uid))
        assert facts.cached(STATE, place) is None
        assert (await facts.stored(STATE, place)).uid == uid
        assert facts.cached(STATE, place) == Fact(uid)
    assert facts.cached(STATE._replace(created_revision=2), place) is None
    await put(registry, f"{ROOT}/core/namespaces/a/default", stored("n", "Namespace"))
    assert facts.cached(STATE, place) is None
    await put(registry, KEY, None)
    assert await facts.stored(STATE, place) == Fact()
    assert set(heard) == {CLUSTER}


async def test_nothing_is_kept_while_a_write_is_under_way(registry: Registry) -> None:
    """Readers may see the old state or the new one then."""
    facts = ObjectFacts(registry.access, registry.fanout, ROOT)
    place = facts.place(CLUSTER, "secrets", "default", "s")
    for key in (KEY, place.namespace_key):
        facts.writing(CLUSTER, [key])
        await facts.stored(STATE, place)
        assert facts.cached(STATE, place) is None
        facts.written(CLUSTER, [key])
        await facts.stored(STATE, place)
        assert facts.cached(STATE, place) is not None


async def test_pods_of_crds(registry: Registry) -> None:
    """They are stored elsewhere than built-in ones."""
    facts = ObjectFacts(registry.access, registry.fanout, ROOT)
    place = facts.place(CLUSTER, "pods", "default", "p")
    assert (await facts.either(STATE, "pods", place)).uid == ""
    await put(registry, f"{ROOT}/core/pods/customresources/a/default/p", stored("custom", "Pod"))
    assert (await facts.either(STATE, "pods", place)).uid == "custom"
    await put(registry, f"{ROOT}/core/pods/a/default/p", stored("builtin", "Pod"))
    assert (await facts.either(STATE, "pods", place)).uid == "builtin"


@pytest.mark.parametrize("value", [b"x", b"[]", b"{}", b'{"metadata":5}', b'{"metadata":{"uid":"u","deletionTimestamp":"soon"}}'], ids=repr)
async def test_objects_of_other_software(registry: Registry, value: bytes) -> None:
    """An object that cannot be read validates no token."""
    facts = ObjectFacts(registry.access, registry.fanout, ROOT)
    await put(registry, KEY, value)
    assert (await facts.stored(STATE, facts.place(CLUSTER, "secrets", "default", "s"))).uid == ""
