"""The existing clusters, and requests to clusters that were deleted or created again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from kcp_py.logicalcluster import ROOT as ROOT_CLUSTER
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.store import Access
from kcp_py.storage.contract import Compare, ConflictError, Delete, Put
from kcp_py.tenancy import LogicalClusters, new_logical_cluster
from kcp_py.watchcache import Fanout, Watcher
from tests.client.registry import CONFIG_MAPS, LOGICAL_CLUSTERS, ROOT, Registry, config_map
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, feed_begins_again

pytestmark = pytest.mark.anyio

CREATED = "2026-01-01T00:00:00Z"
SYSTEM = Name("system:shard")


def stored(uid: str = "1", **metadata: Any) -> dict[str, Any]:
    """The object of team-a."""
    obj = new_logical_cluster(A, uid, CREATED, url="")
    obj["metadata"] |= metadata
    return obj


async def life(registry: Registry, cluster: Name = A) -> str | None:
    """The uid under which the cluster is known."""
    cluster_state = await registry.clusters.state(cluster)
    return None if cluster_state is None else cluster_state.uid


async def test_a_state_says_what_the_object_says(registry: Registry, elsewhere: Elsewhere) -> None:
    """One life of the cluster, guarded by the revision that was read."""
    created = await elsewhere.put(registry.clusters.key(A), stored())
    revision = await elsewhere.put(registry.clusters.key(A), stored(labels={"a": "b"}))
    guard = (Compare(registry.clusters.key(A), mod_revision=revision),)
    life = (Compare(registry.clusters.key(A), create_revision=created),)
    assert await registry.clusters.state(A) == ClusterState(A, "1", created, CREATED, guard=guard, life=life)
    assert registry.clusters.key(A) == f"{ROOT}/core.kcp.io/logicalclusters/{A}/cluster"
    assert registry.clusters.key(A).startswith(registry.clusters.prefix)


@pytest.mark.parametrize(
    ("metadata", "terminating", "inactive"),
    [
        pytest.param({}, False, False, id="in use"),
        pytest.param({"deletionTimestamp": CREATED}, True, False, id="being deleted"),
        pytest.param({"annotations": {"core.kcp.io/inactive": "true"}}, False, True, id="switched off"),
        pytest.param({"annotations": {"internal.kcp.io/inactive": "true"}}, False, True, id="switched off, as it was called before"),
        pytest.param({"annotations": {"core.kcp.io/inactive": "false"}}, False, False, id="switched on"),
    ],
)
async def test_states(registry: Registry, elsewhere: Elsewhere, metadata: dict[str, Any], *, terminating: bool, inactive: bool) -> None:
    """The state of the cluster follows its object as soon as the event is distributed."""
    await elsewhere.put(registry.clusters.key(A), stored())
    await registry.clusters.state(A)
    await elsewhere.put(registry.clusters.key(A), stored(**metadata))
    cluster_state = await registry.clusters.state(A)
    assert cluster_state is not None
    assert (cluster_state.terminating, cluster_state.inactive) == (terminating, inactive)


async def test_clusters_that_always_exist(registry: Registry) -> None:
    """`root` and system clusters do without an object; others do not."""
    assert await registry.clusters.state(A) is None
    for cluster in (ROOT_CLUSTER, SYSTEM):
        cluster_state = await registry.clusters.state(cluster)
        assert cluster_state is not None
        assert (cluster_state.name, cluster_state.created_revision, cluster_state.guard) == (
            cluster,
            0,
            (Compare(registry.clusters.key(cluster), mod_revision=0),),
        )
        assert await registry.clusters.get(cluster) is None
    assert len(registry.clusters) == 0


async def test_a_cluster_that_is_not_created_yet(registry: Registry) -> None:
    """It has one uid for all readers and an empty past; its first object brings it into being in the same transaction, once."""
    cluster_state, again = registry.clusters.uncreated(A), registry.clusters.uncreated(A)
    assert cluster_state.uid == again.uid != registry.clusters.uncreated(B).uid
    await registry.storage.transact(cluster_state.guard, cluster_state.create_with)
    created = await registry.clusters.state(A)
    assert created is not None
    assert created.uid != cluster_state.uid
    with pytest.raises(ConflictError):
        await registry.storage.transact(again.guard, again.create_with)


async def test_the_url_of_a_new_cluster() -> None:
    """Its status says where clients reach it, where the server knows."""
    storage = SteppedStorage()
    for url, status in [("https://kcp.test", {"phase": "Ready", "URL": "https://kcp.test/clusters/team-a"}), ("", {"phase": "Ready"})]:
        clusters = LogicalClusters(Access(storage), Fanout(storage, ROOT), root=ROOT, url=url)
        (create_with,) = clusters.uncreated(A).create_with
        assert isinstance(create_with, Put)
        assert orjson.loads(create_with.value)["status"] == status


async def test_a_state_is_confirmed_for_its_life(registry: Registry, elsewhere: Elsewhere) -> None:
    """Changes of the cluster leave it valid; after the end, or once another cluster has the name, it is stale."""
    key = registry.clusters.key(A)
    uncreated = registry.clusters.uncreated(A)
    await registry.clusters.confirm(uncreated)
    await elsewhere.put(key, stored())
    with pytest.raises(StaleStateError):
        await registry.clusters.confirm(uncreated)
    first = await registry.clusters.state(A)
    assert first is not None
    await elsewhere.put(key, stored(labels={"a": "b"}))
    await registry.clusters.confirm(first)
    await elsewhere.delete(key)
    with pytest.raises(StaleStateError):
        await registry.clusters.confirm(first)
    await elsewhere.put(key, stored())
    with pytest.raises(StaleStateError):
        await registry.clusters.confirm(first)


@pytest.mark.parametrize("annotation", ["core.kcp.io/inactive", "kcp-py.io/delete-after"])
async def test_a_state_is_stale_once_its_cluster_is_not_served(registry: Registry, elsewhere: Elsewhere, annotation: str) -> None:
    """A watch that begins while its cluster is switched off or deleted does not go on in it."""
    key = registry.clusters.key(A)
    await elsewhere.put(key, stored())
    cluster_state = await registry.clusters.state(A)
    assert cluster_state is not None
    await elsewhere.put(key, stored(annotations={annotation: "true"}))
    with pytest.raises(StaleStateError):
        await registry.clusters.confirm(cluster_state)
    off = await registry.clusters.state(A)
    assert off is not None
    await registry.clusters.confirm(off)


async def test_ensure(registry: Registry, storage: SteppedStorage) -> None:
    """The object is created unless it exists, also with concurrent creates."""
    await registry.clusters.ensure(A)
    uid = await life(registry)
    await registry.clusters.ensure(A)
    assert await life(registry) == uid
    storage.after_read(lambda: registry.clusters.ensure(B))
    await registry.clusters.ensure(B)
    assert await life(registry, B) is not None


async def test_clusters_in_order(registry: Registry, elsewhere: Elsewhere) -> None:
    """Pages by name, as they were at a revision."""
    for cluster in (C, A, B):
        await registry.clusters.ensure(cluster)
    then = await registry.storage.revision()
    await elsewhere.delete(registry.clusters.key(B))

    async def names(first: Name | None, limit: int, revision: int) -> list[str]:
        return [cluster_state.name for cluster_state in await registry.clusters.states(first, limit, revision)]

    assert await names(None, 0, 0) == [A, C]
    assert await names(None, 0, then) == [A, B, C]
    assert await names(None, 2, then) == [A, B]
    assert await names(B, 0, 0) == [C]
    assert await names(C, 1, then) == [C]
    assert len(registry.clusters) == 0


async def test_states_are_bounded(registry: Registry) -> None:
    """One that had to go is read again."""
    access = replace(registry.access, budget=ClusterBudget(0))
    clusters = LogicalClusters(access, registry.fanout, root=ROOT)
    for cluster in (A, B, C):
        await clusters.ensure(cluster)
        await registry.fanout.reached(await registry.storage.revision())
        await clusters.state(cluster)
    assert (len(clusters), clusters.cached(A), clusters.cached(C)) == (1, None, await clusters.state(C))
    assert await clusters.state(A) is not None


async def test_the_end_is_told(registry: Registry, elsewhere: Elsewhere) -> None:
    """Registered functions are called when a cluster is deleted or deactivated, and not for other changes or clusters."""
    told: list[Name] = []
    registry.clusters.on_gone(told.append)
    key = registry.clusters.key(A)
    await elsewhere.put(key, stored())
    await elsewhere.put(key, stored(deletionTimestamp=CREATED))
    assert told == []
    await elsewhere.put(key, stored(annotations={"core.kcp.io/inactive": "true"}))
    assert told == [A]
    await elsewhere.delete(key)
    assert told == [A, A]


async def test_a_removed_cluster_is_forgotten(registry: Registry, elsewhere: Elsewhere) -> None:
    """All cached values of a deleted cluster are dropped, including its table."""
    await registry.clusters.ensure(A)
    await registry.fanout.reached(await registry.storage.revision())
    await registry.clusters.state(A)
    await registry.tables.get(A)
    assert registry.tables.cached(A) is not None
    await elsewhere.delete(registry.clusters.key(A))
    assert (registry.clusters.cached(A), registry.tables.cached(A)) == (None, None)
    assert await registry.clusters.state(A) is None


async def test_a_cluster_made_again_while_its_state_is_read(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """A state from before the deletion is refused for writes, and is not returned afterwards."""
    key = registry.clusters.key(A)
    await elsewhere.put(key, stored("old"))

    async def make_again() -> None:
        await elsewhere.delete(key)
        await elsewhere.put(key, stored("new"))
        assert await life(registry) == "new"

    storage.after_read(make_again)
    old = await registry.clusters.state(A)
    assert old is not None
    assert old.uid == "old"
    assert await life(registry) == "new"
    with pytest.raises(ConflictError):
        await registry.storage.transact(old.guard, (Put(f"{ROOT}/core/configmaps/{A}/default/late", b"{}"),))


async def test_a_cluster_removed_while_its_state_is_read(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """It is not remembered as one that exists."""
    key = registry.clusters.key(A)
    await elsewhere.put(key, stored())
    storage.after_read(lambda: elsewhere.delete(key))
    assert await life(registry) == "1"
    assert await life(registry) is None


async def test_a_cluster_born_while_its_state_is_read(registry: Registry, storage: SteppedStorage) -> None:
    """Absence is not remembered: the next one finds it."""
    storage.after_read(lambda: registry.clusters.ensure(A))
    assert await life(registry) is None
    assert await life(registry) is not None


async def test_a_write_here_is_known_at_once(registry: Registry, storage: SteppedStorage) -> None:
    """Between the commit and its acknowledgement readers see it, and remember nothing; its writer finds it when it is told."""
    await registry.clusters.ensure(A)
    await registry.fanout.reached(await registry.storage.revision())
    seen: list[Any] = []

    async def look() -> None:
        seen.extend((await registry.clusters.state(A), registry.clusters.cached(A)))

    storage.after_commit(look)
    await registry.client.delete(A, LOGICAL_CLUSTERS, "", "cluster")
    cluster_state, cached = seen
    assert cluster_state.terminating
    assert cached is None
    assert await registry.clusters.state(A) == cluster_state == registry.clusters.cached(A)


async def test_objects_do_not_touch_states(registry: Registry) -> None:
    """A cluster that is written to stays remembered."""
    await registry.client.create(A, CONFIG_MAPS, config_map("one"))
    await registry.fanout.reached(await registry.storage.revision())
    cluster_state = await registry.clusters.state(A)
    await registry.client.create(A, CONFIG_MAPS, config_map("two"))
    assert registry.clusters.cached(A) is cluster_state is not None


async def test_all_is_forgotten_when_events_may_have_been_missed(registry: Registry) -> None:
    """A feed that begins again has every state read again."""
    await registry.clusters.ensure(A)
    await registry.fanout.reached(await registry.storage.revision())
    await registry.clusters.state(A)
    assert len(registry.clusters) == 1
    await feed_begins_again(registry)
    assert len(registry.clusters) == 0


async def taken(watcher: Watcher) -> list[tuple[str, str, bool, int]]:
    """(cluster, name, whether it is there, revision) of what a watch has got."""
    return [(event.route.cluster, event.route.name, event.value is not None, event.mod_revision) for event in await watcher.take()]


@pytest.mark.parametrize("late", [pytest.param(False, id="live"), pytest.param(True, id="from history")])
async def test_default_namespaces_come_and_go_with_their_cluster(registry: Registry, elsewhere: Elsewhere, *, late: bool) -> None:
    """Watches of namespaces see them at the revisions of their cluster's creation and end, and nothing at its other changes."""
    prefix = f"{ROOT}/core/namespaces/"
    key = registry.clusters.key(A)
    start = registry.fanout.revision
    live = registry.fanout.attach(prefix, after=start)
    created = await elsewhere.put(key, stored())
    await elsewhere.put(key, stored(labels={"a": "b"}))
    await elsewhere.put(key, stored(deletionTimestamp=CREATED))
    gone = await elsewhere.delete(key)
    watcher = registry.fanout.attach(prefix, cluster=A, after=start) if late else live
    names = ("default", "kube-node-lease", "kube-public", "kube-system")
    expected = [(str(A), name, True, created) for name in names] + [(str(A), name, False, gone) for name in names]
    assert await taken(watcher) == expected
    await registry.fanout.detach(watcher)


async def test_a_namespace_ends_as_the_one_that_it_was(registry: Registry, elsewhere: Elsewhere) -> None:
    """The event of its removal carries what readers had: the same uid."""
    watcher = registry.fanout.attach(f"{ROOT}/core/namespaces/", cluster=A, name="default", after=registry.fanout.revision)
    await elsewhere.put(registry.clusters.key(A), stored())
    await registry.storage.transact((), (Delete(registry.clusters.key(A)),))
    await registry.fanout.reached(await registry.storage.revision())
    added, removed = await watcher.take()
    assert removed.previous is not None
    assert added.value == removed.previous.value
    assert removed.value is None
