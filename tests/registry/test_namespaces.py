"""Every cluster has its default namespaces before anything is stored, and no object outlives its namespace."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.namespaces import DEFAULT_NAMESPACES, default_namespaces, namespace_guard, namespace_keys
from kcp_py.registry.resource import ServedResource
from kcp_py.storage.contract import Compare
from tests.client.registry import LOGICAL_CLUSTERS, NAMESPACES, ROOT, Registry, namespace
from tests.registry.conftest import A, B, Elsewhere, SteppedStorage

pytestmark = pytest.mark.anyio

CREATED = "2026-01-01T00:00:00Z"
DELETED = {"deletionTimestamp": CREATED}


def key(name: str, cluster: Name = A) -> str:
    return f"{ROOT}/core/namespaces/{cluster}/{name}"


@pytest.fixture
def config_maps(registry: Registry) -> ServedResource:
    found = registry.tables.builtin("", "v1", "configmaps")
    assert found is not None
    return found.resource


def test_default_namespaces_are_ordinary_ones() -> None:
    """In the order of their keys, each as upstream's would be stored."""
    found = default_namespaces("team-a", "1", CREATED)
    assert list(found) == list(DEFAULT_NAMESPACES) == sorted(found)
    obj = orjson.loads(found["kube-system"])
    assert (
        obj.pop("metadata").items()
        >= {
            "name": "kube-system",
            "creationTimestamp": CREATED,
            "labels": {"kubernetes.io/metadata.name": "kube-system"},
        }.items()
    )
    assert obj == {"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def test_their_uids_are_those_of_one_life_of_one_cluster() -> None:
    """They are equal each time, and differ by cluster, by life of the cluster, and by name."""
    places = [("team-a", "1"), ("team-b", "1"), ("team-a", "2")]
    uids = [orjson.loads(value)["metadata"]["uid"] for place in places for value in default_namespaces(*place, CREATED).values()]
    assert len(set(uids)) == len(places) * len(DEFAULT_NAMESPACES)
    assert default_namespaces("team-a", "1", CREATED) == default_namespaces("team-a", "1", CREATED)


def test_keys() -> None:
    """Namespaces are cluster-scoped objects of the core group."""
    assert namespace_keys(ROOT).object_key(A, "", "shop") == key("shop")


async def test_a_cluster_has_them_without_storing_them(registry: Registry) -> None:
    """Reads of one, of all of a cluster, and of all clusters find them, with the age and revision of their cluster."""
    for cluster in (A, B):
        await registry.clusters.ensure(cluster)
    assert await registry.keys(f"namespaces/{A}") == []
    own = await registry.client.get(A, LOGICAL_CLUSTERS, "", "cluster")
    one = await registry.client.get(A, NAMESPACES, "", "default")
    for member in ("creationTimestamp", "resourceVersion"):
        assert one["metadata"][member] == own["metadata"][member]
    assert [item["metadata"]["name"] for item in (await registry.client.list(A, NAMESPACES)).items] == list(DEFAULT_NAMESPACES)
    everywhere = (await registry.client.list(WILDCARD, NAMESPACES)).items
    found = [(item["metadata"]["annotations"]["kcp.io/cluster"], item["metadata"]["name"]) for item in everywhere]
    assert found == [(cluster, name) for cluster in (A, B) for name in DEFAULT_NAMESPACES]


async def test_a_stored_one_takes_the_place_of_the_virtual_one(registry: Registry) -> None:
    """An update stores it, under its old uid and age; from then on it is read from the store, once in every list."""
    await registry.clusters.ensure(A)
    virtual = await registry.client.get(A, NAMESPACES, "", "default")
    changed = {**virtual, "metadata": {**virtual["metadata"], "labels": {**virtual["metadata"]["labels"], "a": "b"}}}
    await registry.client.update(A, NAMESPACES, changed)
    assert len(await registry.keys(f"namespaces/{A}")) == 1
    for cluster in (A, WILDCARD):
        items = (await registry.client.list(cluster, NAMESPACES)).items
        assert [item["metadata"]["name"] for item in items] == list(DEFAULT_NAMESPACES)
        (stored,) = [item["metadata"] for item in items if item["metadata"]["name"] == "default"]
        assert stored["labels"] == {"kubernetes.io/metadata.name": "default", "a": "b"}
        assert [stored[member] for member in ("uid", "creationTimestamp")] == [
            virtual["metadata"][member] for member in ("uid", "creationTimestamp")
        ]
    assert (await registry.client.get(A, NAMESPACES, "", "default"))["metadata"]["labels"]["a"] == "b"


async def state_of(registry: Registry, **changes: Any) -> ClusterState:
    await registry.clusters.ensure(A)
    cluster_state = await registry.clusters.state(A)
    assert cluster_state is not None
    return cluster_state._replace(**changes)


@pytest.mark.parametrize("name", ["default", "kube-public", "kube-system"])
async def test_immortal_namespaces_need_no_check(
    registry: Registry, storage: SteppedStorage, config_maps: ServedResource, name: str
) -> None:
    """They are there as long as their cluster takes anything, stored or not: nothing is read and nothing compared."""
    cluster_state = await state_of(registry)

    async def read() -> None:
        raise AssertionError

    storage.after_read(read)
    assert await namespace_guard(registry.storage, config_maps, cluster_state, name, name="one") == ()


async def test_a_namespace_is_checked_as_it_was_read(registry: Registry, elsewhere: Elsewhere, config_maps: ServedResource) -> None:
    """Objects that are stored in it depend on its revision; a virtual namespace must not have been stored meanwhile."""
    cluster_state = await state_of(registry)
    revision = await elsewhere.put(key("shop"), namespace("shop"))
    assert await namespace_guard(registry.storage, config_maps, cluster_state, "shop", name="one") == (
        Compare(key("shop"), mod_revision=revision),
    )
    lease = key("kube-node-lease")
    assert await namespace_guard(registry.storage, config_maps, cluster_state, "kube-node-lease", name="one") == (
        Compare(lease, mod_revision=0),
    )
    revision = await elsewhere.put(lease, namespace("kube-node-lease"))
    assert await namespace_guard(registry.storage, config_maps, cluster_state, "kube-node-lease", name="one") == (
        Compare(lease, mod_revision=revision),
    )


async def test_a_missing_namespace(registry: Registry, elsewhere: Elsewhere, config_maps: ServedResource) -> None:
    """404, also where another cluster has one of that name."""
    cluster_state = await state_of(registry)
    await elsewhere.put(key("shop", B), namespace("shop"))
    with pytest.raises(StatusError) as caught:
        await namespace_guard(registry.storage, config_maps, cluster_state, "shop", name="one")
    assert (caught.value.code, caught.value.reason, caught.value.message) == (404, "NotFound", 'namespaces "shop" not found')


@pytest.mark.parametrize("name", ["shop", "kube-node-lease"])
async def test_a_terminating_namespace(registry: Registry, elsewhere: Elsewhere, config_maps: ServedResource, name: str) -> None:
    """403 with upstream's message and cause."""
    cluster_state = await state_of(registry)
    await elsewhere.put(key(name), {**namespace(name), "metadata": {"name": name, **DELETED}})
    with pytest.raises(StatusError) as caught:
        await namespace_guard(registry.storage, config_maps, cluster_state, name, name="one")
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message.endswith(f"unable to create new content in namespace {name} because it is being terminated")
    assert caught.value.details is not None
    assert caught.value.details["causes"] == [
        {"reason": "NamespaceTerminating", "message": f"namespace {name} is being terminated", "field": "metadata.namespace"}
    ]


async def test_the_word_deletion_alone_deletes_nothing(registry: Registry, elsewhere: Elsewhere, config_maps: ServedResource) -> None:
    """An annotation may quote a terminating object."""
    cluster_state = await state_of(registry)
    quoting = {**namespace("shop"), "metadata": {"name": "shop", "annotations": {"deletionTimestamp": CREATED}}}
    await elsewhere.put(key("shop"), quoting)
    assert await namespace_guard(registry.storage, config_maps, cluster_state, "shop", name="one")


@pytest.mark.parametrize("name", DEFAULT_NAMESPACES)
async def test_a_terminating_cluster_has_no_virtual_namespaces_left(
    registry: Registry, elsewhere: Elsewhere, config_maps: ServedResource, name: str
) -> None:
    """Objects are not created in a namespace that is not stored; a stored one decides for itself."""
    cluster_state = await state_of(registry, terminating=True)
    with pytest.raises(StatusError) as caught:
        await namespace_guard(registry.storage, config_maps, cluster_state, name, name="one")
    assert caught.value.code == 404
    await elsewhere.put(key(name), namespace(name))
    assert await namespace_guard(registry.storage, config_maps, cluster_state, name, name="one")
