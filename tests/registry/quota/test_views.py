"""Limits of whole clusters are charged in the transactions of writes, like quotas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controllers.content import delete_namespace_content
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.registry.clusterlimits import BYTES_ANNOTATION, DEFINITIONS_ANNOTATION, OBJECTS_ANNOTATION, Limits, Used
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.quota.growth import count_used
from kcp_py.registry.quota.views import Views
from kcp_py.registry.quota.writes import Usage, View
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import Compare, Delete, KeyValue, Operation, Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.tenancy import LOGICAL_CLUSTER
from kcp_py.tenancy.logicalcluster import logical_cluster_keys
from tests.client.registry import CONFIG_MAPS, CRDS, NAMESPACES, ROOT, WIDGETS, config_map, make_crd, namespace, open_registry, widget
from tests.registry.quota.conftest import GUARD, QUOTAS, TEAM, Charged, Servers

pytestmark = pytest.mark.anyio

EVENTS = GroupVersionResource("", "v1", "events")
OTHER = Name("team-b")
USAGE = f"{ROOT}/.kcp-py/usage/{TEAM}"


async def limit(charged: Charged, cluster: Name = TEAM, **annotations: str | None) -> None:
    """Set limits: `objects`, `size`, `definitions`."""
    names = {"objects": OBJECTS_ANNOTATION, "size": BYTES_ANNOTATION, "definitions": DEFINITIONS_ANNOTATION}
    patch = {"metadata": {"annotations": {names[name]: value for name, value in annotations.items()}}}
    await charged.client.patch(cluster, LOGICAL_CLUSTER, "", "cluster", document=patch)


async def used(charged: Charged, cluster: Name = TEAM) -> Used:
    """The usage, which is what a count finds."""
    found = await charged.ledger.used(cluster)
    assert found is not None
    assert found == await count_used(charged.storage, ROOT, cluster)
    return found


async def create(charged: Charged, name: str, cluster: Name = TEAM, **more: Any) -> dict[str, Any]:
    return await charged.client.create(cluster, CONFIG_MAPS, {**config_map(name), **more})


async def refusal(writing: Any) -> str:
    with pytest.raises(StatusError) as raised:
        await writing
    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    return raised.value.message


async def test_the_last_object_is_given_once(charged):
    """What exists is counted, the text names the limit, and a deletion makes room."""
    await create(charged, "a")
    await limit(charged, objects="2")
    await create(charged, "b")
    assert (await used(charged)).objects == 2
    assert await refusal(create(charged, "c")) == (
        'configmaps "c" is forbidden: logical cluster "team-a" has reached its limit of 2 objects (core.kcp.io/max-total-objects): '
        "2 used, 1 requested"
    )
    await charged.client.delete(TEAM, CONFIG_MAPS, "default", "a")
    await create(charged, "c")
    assert (await used(charged)).objects == 2


async def test_many_writers_race_for_the_last_unit(charged):
    """Exactly one of 64 gets it, of whatever resource."""
    await limit(charged, objects="3")
    await create(charged, "a")
    await charged.client.create(TEAM, NAMESPACES, namespace("n"))
    answers = await asyncio.gather(*(create(charged, f"racer-{number}") for number in range(64)), return_exceptions=True)
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, StatusError)} == {403}
    assert (await used(charged)).objects == 3


async def test_two_servers_race_for_the_last_unit(shared):
    """Exactly one of 64 writers gets it, though one server has not heard of the limit."""
    several = Servers(shared, 2)
    await limit(shared, objects="1")

    async def race(number: int) -> dict[str, Any]:
        several.select(number)
        return await create(shared, f"racer-{number}")

    answers = await asyncio.gather(*map(race, range(64)), return_exceptions=True)
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert (await used(shared)).objects == 1


async def test_bytes_are_those_of_the_stored_form(charged):
    """A create, a longer and a shorter update, and a deletion; the usage is that of a count each time."""
    await limit(charged, size="1Mi")
    await create(charged, "a", data={"a": "x" * 1000})
    first = await used(charged)
    assert 1000 < first.size < 2000
    for text in ("x" * 5000, "x" * 10):
        await charged.client.patch(TEAM, CONFIG_MAPS, "default", "a", document={"data": {"a": text}})
        assert abs((await used(charged)).size - first.size - len(text) + 1000) < 500
    await charged.client.delete(TEAM, CONFIG_MAPS, "default", "a")
    assert await used(charged) == Used()


async def test_growth_is_refused_and_shrinking_is_not(charged):
    """An object of a full cluster can be made smaller, and as large as there is room."""
    await create(charged, "a", data={"a": "x" * 5000})
    await limit(charged, size="3000")

    async def resize(size: int) -> None:
        await charged.client.patch(TEAM, CONFIG_MAPS, "default", "a", document={"data": {"a": "x" * size}})

    before = await used(charged)
    text = await refusal(resize(6000))
    assert "has reached its limit of 3000 bytes (kcp-py.io/max-total-bytes): " in text
    assert f"{before.size} used, 1000 requested" in text
    await resize(4000)
    await resize(100)
    room = 3000 - (await used(charged)).size
    await refusal(resize(101 + room))
    await resize(100 + room)
    assert (await used(charged)).size == 3000


async def test_definitions_are_counted(charged):
    """Objects other than CustomResourceDefinitions are not bounded by their limit."""
    await limit(charged, definitions="1")
    await charged.registry.establish(TEAM)
    await charged.client.create(TEAM, WIDGETS, widget("w"))
    other = make_crd(plural="gadgets", kind="Gadget")
    text = await refusal(charged.client.create(TEAM, CRDS, other))
    assert "limit of 1 CustomResourceDefinitions (kcp-py.io/max-custom-resource-definitions): 1 used, 1 requested" in text
    assert (await used(charged)).definitions == 1


async def test_deletions_work_in_a_full_cluster(charged):
    """The beginning of a deletion and the removal of finalizers are stored, though the object grows by them."""
    await create(charged, "a", metadata=config_map("a", finalizers=["example.com/a", "example.com/b"])["metadata"])
    await limit(charged, size="100", objects="1")
    await charged.client.delete(TEAM, CONFIG_MAPS, "default", "a")
    marked = await charged.client.get(TEAM, CONFIG_MAPS, "default", "a")
    fat = {**marked, "metadata": {**marked["metadata"], "finalizers": ["example.com/b"]}, "data": {"a": "x" * 2000}}
    assert "limit of 100 bytes" in await refusal(charged.client.update(TEAM, CONFIG_MAPS, fat))
    grown = {**marked, "data": {"a": "xxx"}}
    assert "limit of 100 bytes" in await refusal(charged.client.update(TEAM, CONFIG_MAPS, grown))
    marked["metadata"]["finalizers"] = ["example.com/b"]
    marked = await charged.client.update(TEAM, CONFIG_MAPS, marked, field_manager="m" * 100)
    await used(charged)
    marked["metadata"]["finalizers"] = []
    await charged.client.update(TEAM, CONFIG_MAPS, marked)
    assert await used(charged) == Used()


async def test_namespaces_go_with_their_content(charged):
    """Bulk deletions give back what they delete."""
    made = await charged.client.create(TEAM, NAMESPACES, namespace("n"))
    await limit(charged, objects="30")
    await asyncio.gather(*(charged.client.create(TEAM, CONFIG_MAPS, config_map(f"c-{number}", "n")) for number in range(29)))
    assert (await used(charged)).objects == 30
    await delete_namespace_content(charged.registry.tap, TEAM, "n", uid=made["metadata"]["uid"])
    assert (await used(charged)).objects == 1
    await charged.client.delete_collection(TEAM, CONFIG_MAPS, "default")
    await used(charged)


async def test_a_lower_limit_deletes_nothing(charged):
    """It refuses what grows. A higher one has effect with the next write."""
    for name in ("a", "b", "c"):
        await create(charged, name)
    await limit(charged, objects="1")
    assert (await used(charged)).objects == 3
    assert "limit of 1 objects" in await refusal(create(charged, "d"))
    await charged.client.patch(TEAM, CONFIG_MAPS, "default", "a", document={"data": {"a": "longer than before"}})
    await limit(charged, objects="4")
    await create(charged, "d")
    await limit(charged, objects=None)
    await create(charged, "e")
    assert await charged.ledger.used(TEAM) is None
    assert not [key for key in (USAGE, GUARD) if await charged.storage.get(key) is not None]


async def test_events_count_with_their_bytes_alone(charged):
    """As in kcp a full cluster can be debugged; what bounds bytes bounds events, too."""
    await limit(charged, objects="1")
    await create(charged, "a")
    event: dict[str, Any] = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "involvedObject": {}}
    event["involvedObject"] = {"kind": "ConfigMap", "namespace": "default", "name": "a"}
    await charged.client.create(TEAM, EVENTS, event)
    assert (await used(charged)).objects == 1
    await limit(charged, size="100")
    assert "limit of 100 bytes" in await refusal(
        charged.client.create(TEAM, EVENTS, {**event, "metadata": {**event["metadata"], "name": "f"}})
    )


async def test_a_dry_run_is_judged_and_not_charged(charged):
    """As if it was written."""
    await limit(charged, objects="1", size="2000")
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"), dry_run=True)
    assert await used(charged) == Used()
    await create(charged, "a")
    assert "limit of 1 objects" in await refusal(charged.client.create(TEAM, CONFIG_MAPS, config_map("b"), dry_run=True))
    large = {"data": {"a": "x" * 3000}}
    assert "limit of 2000 bytes" in await refusal(charged.client.patch(TEAM, CONFIG_MAPS, "default", "a", document=large, dry_run=True))
    await charged.client.delete(TEAM, CONFIG_MAPS, "default", "a", dry_run=True)
    assert (await used(charged)).objects == 1


async def test_each_cluster_has_its_own(charged):
    """A full cluster bounds no other one."""
    await charged.registry.clusters.ensure(OTHER)
    await limit(charged, objects="1")
    await create(charged, "a")
    for number in range(3):
        await create(charged, f"o-{number}", OTHER)
    await refusal(create(charged, "b"))
    assert await charged.ledger.used(OTHER) is None


async def test_quotas_and_limits_bound_together(charged):
    """The status of a quota, which changes with each charge, counts in bytes, too."""
    await charged.quota(hard={"configmaps": "12"})
    await limit(charged, objects="11", size="1Mi")
    await asyncio.gather(*(create(charged, f"c-{number}") for number in range(10)))
    assert (await used(charged)).objects == 11
    assert "limit of 11 objects" in await refusal(create(charged, "x"))
    await limit(charged, objects="100")
    await create(charged, "c-10")
    await create(charged, "c-11")
    assert "exceeded quota" in await refusal(create(charged, "x"))
    await charged.quota("second", hard={"secrets": "1", "configmaps": "12"})
    await used(charged)
    await charged.client.patch(TEAM, QUOTAS, "default", "q", document={"spec": {"hard": {"secrets": "3"}}})
    await used(charged)
    await charged.client.delete(TEAM, QUOTAS, "default", "q")
    await charged.ledger.recount(TEAM, "default", "second")
    assert (await used(charged)).objects == 13


async def test_a_count_repairs_the_usage(charged):
    """After changes of the store itself."""
    await limit(charged, objects="5")
    await create(charged, "a")
    item = await charged.storage.get(f"{ROOT}/core/configmaps/{TEAM}/default/a")
    await charged.storage.transact((), (Put(f"{ROOT}/core/configmaps/{TEAM}/default/z", item.value), Put(USAGE, b'{"objects":9}')))
    await charged.ledger.recount_cluster(TEAM)
    assert (await used(charged)).objects == 2
    await charged.storage.transact((), (Delete(USAGE),))
    await charged.ledger.recount_cluster(TEAM)
    assert (await used(charged)).objects == 2


async def test_a_server_that_starts_knows_the_limits(charged):
    """The usage says which clusters have any."""
    await limit(charged, objects="1")
    await create(charged, "a")
    access = charged.registry.access
    access.ledger = QuotaLedger(charged.storage, ROOT, access.commit, shared=charged.shared)
    await access.ledger.start()
    assert "limit of 1 objects" in await refusal(create(charged, "b"))


async def test_the_end_of_a_cluster_ends_its_usage(charged):
    """A new cluster of the name begins with nothing."""
    await limit(charged, objects="5")
    client = charged.client
    await client.delete(TEAM, LOGICAL_CLUSTER, "", "cluster")
    obj = await client.get(TEAM, LOGICAL_CLUSTER, "", "cluster")
    key = f"{ROOT}/core.kcp.io/logicalclusters/{TEAM}/cluster"
    item = await charged.storage.get(key)
    await charged.registry.access.transact(TEAM, logical_cluster_keys(ROOT), (), (Delete(item.key),))
    assert obj["metadata"]["deletionTimestamp"]
    assert not [one for one in (USAGE, GUARD) if await charged.storage.get(one) is not None]


@pytest.fixture(params=["shared", "alone"])
async def limited(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Charged]:
    """A registry in which clusters have two objects unless they state another limit."""
    shared = request.param == "shared"
    async with open_registry(MemoryStorage() if shared else SQLiteStorage(tmp_path / "store.db")) as registry:
        ledger = QuotaLedger(registry.storage, ROOT, registry.access.commit, shared=shared, limits=Limits(objects=2))
        registry.access.ledger = ledger
        await ledger.start()
        await registry.clusters.ensure(TEAM)
        yield Charged(registry, ledger, shared=shared)
        await ledger.aclose()


async def test_defaults_apply_to_clusters_that_state_nothing(limited):
    """The text names the option; an annotation has precedence; clusters of the server are not bounded."""
    await create(limited, "a")
    await create(limited, "b")
    assert "of 2 objects (--logical-cluster-total-object-limit): 2 used" in await refusal(create(limited, "c"))
    await limit(limited, objects="3")
    await create(limited, "c")
    assert "of 3 objects (core.kcp.io/max-total-objects)" in await refusal(create(limited, "d"))
    await limit(limited, objects="0")
    await create(limited, "d")
    assert await limited.ledger.used(TEAM) is None
    await limited.registry.clusters.ensure(Name("root"))
    for number in range(3):
        await create(limited, f"o-{number}", Name("root"))


async def test_status_of_the_server_is_stored_in_a_full_cluster(charged):
    """Tenants' status is bounded, which could be used to store anything."""
    await charged.registry.establish(TEAM)
    made = await charged.client.create(TEAM, CRDS, make_crd(plural="gadgets", kind="Gadget"))
    await limit(charged, size="100")
    made["status"]["conditions"] = [{"type": "Established", "status": "False", "reason": "x", "message": "x" * 100}]
    tenant = charged.client.acting_as(UserInfo("tenant"))
    assert "limit of 100 bytes" in await refusal(tenant.update(TEAM, CRDS, made, subresource="status"))
    await charged.client.update(TEAM, CRDS, made, subresource="status")
    await used(charged)


class HeldStorage(MemoryStorage):
    """A store whose reads of the usage wait while they are held."""

    def __init__(self) -> None:
        super().__init__()
        self.held = asyncio.Event()
        self.waiting = asyncio.Event()

    async def get(self, key: str) -> KeyValue | None:
        found = await super().get(key)
        if key == USAGE:
            self.waiting.set()
            await self.held.wait()
        return found


@pytest.mark.parametrize("change", ["drop", "keep"])
async def test_a_view_that_was_read_before_a_change_is_not_kept(change):
    """A view that is read slowly answers its reader alone: one without limits would let later writes pass uncounted."""
    async with HeldStorage() as storage:

        async def commit(_: Name, __: Iterable[str], compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
            return await storage.transact(compares, operations)

        views = Views(storage, ROOT, commit, shared=False)
        loading = asyncio.create_task(views.load(TEAM))
        await storage.waiting.wait()
        await storage.transact((), (Put(USAGE, b'{"objects":1,"size":2,"definitions":3}'),))
        newer = View(TEAM, 0, {}, usage=Usage(USAGE, await storage.revision(), Used(1, 2, 3)))
        if change == "drop":
            views.drop(TEAM)
        else:
            views.keep(TEAM, newer)
        storage.held.set()
        assert (await loading).usage is None
        assert views.cached(TEAM) == (None if change == "drop" else newer)
        assert await views.load(TEAM) == newer == views.cached(TEAM)


async def test_limits_hold_without_room_for_views():
    """Clusters that push each other out of the caches are charged and refused exactly."""
    async with open_registry(MemoryStorage()) as registry:
        budget = ClusterBudget(0)
        registry.access.ledger = QuotaLedger(registry.storage, ROOT, registry.access.commit, shared=False, budget=budget)
        charged = Charged(registry, registry.access.ledger, shared=False)
        clusters = [TEAM, OTHER]
        for cluster in clusters:
            await registry.clusters.ensure(cluster)
            await limit(charged, cluster, objects="3")
        answers = await asyncio.gather(
            *(create(charged, f"m{number}", cluster) for number in range(6) for cluster in clusters), return_exceptions=True
        )
        assert [sum(isinstance(answer, dict) for answer in answers[at::2]) for at in range(2)] == [3, 3]
        assert [(await used(charged, cluster)).objects for cluster in clusters] == [3, 3]
        assert len(budget) <= 1
        assert budget.evictions
