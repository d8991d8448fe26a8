"""Quotas are charged in the transactions of writes: never too late, never twice, never for nothing."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.admission import ResourceQuota
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.quota.writes import MOST_QUOTAS
from kcp_py.storage.contract import Delete, Put
from tests.client.registry import CONFIG_MAPS, NAMESPACES, ROOT, WIDGETS, config_map, namespace, widget
from tests.registry.quota.conftest import QUOTAS, TEAM, Charged, Servers

pytestmark = pytest.mark.anyio

EXCEEDED = (
    'configmaps "b" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1'
)


async def refusal(charged: Charged, name: str, *, dry_run: bool = False) -> str:
    with pytest.raises(StatusError) as raised:
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(name), dry_run=dry_run)
    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    return raised.value.message


async def test_a_quota_is_filled_when_it_is_created(charged):
    """What exists is counted with the write of the quota, whose answer shows it and can be written again."""
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    created = await charged.quota(hard={"configmaps": "5", "count/secrets": "3", "resourcequotas": "2", "count/gadgets.example.com": "1"})
    wanted = {"configmaps": "1", "count/secrets": "0", "resourcequotas": "1", "count/gadgets.example.com": "0"}
    assert created["status"]["used"] == await charged.used() == wanted


async def test_the_last_unit_is_given_once(charged):
    """A further write is refused in upstream's words, and a deletion gives the unit back."""
    await charged.quota(hard={"count/configmaps": "1"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await refusal(charged, "b") == EXCEEDED
    await charged.client.delete(TEAM, CONFIG_MAPS, "default", "a")
    assert await charged.used() == {"count/configmaps": "0"}
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("b"))
    assert await charged.used() == {"count/configmaps": "1"}


async def test_a_full_quota_refuses_names_that_exist(charged):
    """As upstream, where the quota is asked before the store."""
    await charged.quota(hard={"count/configmaps": "1"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("b"))
    assert await refusal(charged, "b") == EXCEEDED


async def test_quotas_that_count_one_namespace_have_a_bound(charged):
    """A namespace with as many quotas as a transaction can charge takes no further one, nor does its cluster; others do."""
    await charged.client.create(TEAM, NAMESPACES, namespace("other"))
    for number in range(MOST_QUOTAS - 1):
        await charged.quota(f"q{number}", hard={"count/configmaps": "1"})
    wide = {"experimental.quota.kcp.io/cluster-scoped": "true"}
    await charged.quota("wide", "other", annotations=wide, hard={"count/configmaps": "1"})
    detail = f"is forbidden: at most {MOST_QUOTAS} resource quotas can count the objects of a namespace"
    for name, where, noted in (("more", "default", {}), ("more", "other", wide)):
        with pytest.raises(StatusError, match=f'resourcequotas "more" {detail}') as refused:
            await charged.quota(name, where, annotations=noted, hard={"count/configmaps": "1"})
        assert refused.value.code == 403
    other = await charged.quota("other", "other", hard={"count/configmaps": "1"})
    with pytest.raises(StatusError, match=f'resourcequotas "other" {detail}'):
        await charged.client.update(TEAM, QUOTAS, {**other, "metadata": {**other["metadata"], "annotations": wide}})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await charged.used("q7") == await charged.used("wide", "other") == {"count/configmaps": "1"}
    await charged.client.delete(TEAM, QUOTAS, "default", "q0")
    await charged.quota("more", hard={"count/configmaps": "1"})


async def test_an_object_with_finalizers_counts_until_it_is_gone(charged):
    """The write that takes the last finalizer away gives the unit back."""
    await charged.quota(hard={"configmaps": "1"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a", finalizers=["example.com/a"]))
    await charged.client.delete(TEAM, CONFIG_MAPS, "default", "a")
    marked = await charged.client.get(TEAM, CONFIG_MAPS, "default", "a")
    assert await charged.used() == {"configmaps": "1"}
    marked["metadata"]["finalizers"] = []
    await charged.client.update(TEAM, CONFIG_MAPS, marked)
    assert await charged.used() == {"configmaps": "0"}


async def test_a_dry_run_is_judged_and_not_charged(charged):
    """As if it was written."""
    await charged.quota(hard={"count/configmaps": "1"})
    access = charged.registry.access
    access.admission = AdmissionChain((*access.admission.plugins, ResourceQuota(charged.ledger)))
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"), dry_run=True)
    assert await charged.used() == {"count/configmaps": "0"}
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await refusal(charged, "b", dry_run=True) == EXCEEDED


async def test_other_namespaces_are_not_charged(charged):
    """Unless the quota is for the whole cluster."""
    await charged.client.create(TEAM, NAMESPACES, namespace("game"))
    await charged.quota(hard={"configmaps": "1"})
    everywhere = {"experimental.quota.kcp.io/cluster-scoped": "true"}
    await charged.quota("all", hard={"configmaps": "2", "count/namespaces": "9"}, annotations=everywhere)
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a", "game"))
    assert (await charged.used(), await charged.used("all")) == ({"configmaps": "0"}, {"configmaps": "1", "count/namespaces": "1"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await charged.used() == {"configmaps": "1"}
    with pytest.raises(StatusError, match="exceeded quota: all, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map("b", "game"))
    await charged.client.create(TEAM, NAMESPACES, namespace("more"))
    assert (await charged.used("all"))["count/namespaces"] == "2"


async def test_custom_resources_are_counted(charged):
    """By their plural and group, whether or not the CRD was there first."""
    await charged.quota(hard={"count/widgets.example.com": "1"})
    await charged.registry.establish(TEAM)
    await charged.client.create(TEAM, WIDGETS, widget("a"))
    assert await charged.used() == {"count/widgets.example.com": "1"}
    with pytest.raises(StatusError, match=r"exceeded quota: q, requested: count/widgets\.example\.com=1"):
        await charged.client.create(TEAM, WIDGETS, widget("b"))


async def test_new_limits_count_at_once(charged):
    """A quota that begins to count something knows at once how much there is."""
    quota = await charged.quota(hard={"secrets": "1"})
    for name in ("a", "b"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(name))
    quota = await charged.client.get(TEAM, QUOTAS, "default", "q")
    quota["spec"]["hard"] = {"count/configmaps": "2"}
    await charged.client.update(TEAM, QUOTAS, quota)
    assert await charged.used() == {"count/configmaps": "2"}
    assert "used: count/configmaps=2" in await refusal(charged, "c")


async def test_a_false_status_is_repaired(charged):
    """A write of the status does not make room."""
    await charged.quota(hard={"configmaps": "1"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    quota = await charged.client.get(TEAM, QUOTAS, "default", "q")
    quota["status"] = {"hard": {"configmaps": "9"}, "used": {"configmaps": "0"}}
    await charged.client.update(TEAM, QUOTAS, quota, subresource="status")
    assert await charged.used() == {"configmaps": "1"}
    await refusal(charged, "b")


async def test_a_recount_repairs_what_was_written_behind_its_back(charged):
    """Objects and quotas that were changed in the store itself."""
    await charged.quota(hard={"configmaps": "5"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    key = f"{ROOT}/core/configmaps/{TEAM}/default"
    item = await charged.storage.get(f"{key}/a")
    await charged.storage.transact((), [Put(f"{key}/b", item.value), Put(f"{key}/c", item.value)])
    assert await charged.used() == {"configmaps": "1"}
    await charged.ledger.recount(TEAM, "default", "q")
    assert await charged.used() == {"configmaps": "3"}
    await charged.registry.rewrite(
        f"{ROOT}/core/resourcequotas/{TEAM}/default/q", lambda obj: obj["status"].update(used={"configmaps": "77"})
    )
    await charged.ledger.recount(TEAM, "default", "q")
    assert await charged.used() == {"configmaps": "3"}


async def test_quotas_of_earlier_runs_count(charged):
    """A server that starts knows which clusters have any."""
    await charged.quota(hard={"count/configmaps": "1"})
    access = charged.registry.access
    access.ledger = QuotaLedger(charged.storage, ROOT, access.commit, shared=charged.shared)
    await access.ledger.start()
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await refusal(charged, "b") == EXCEEDED
    await access.ledger.aclose()


async def test_a_quota_of_another_server_counts_from_its_creation(shared):
    """This server does not know it; the transaction notices."""
    servers = Servers(shared, 2)
    await shared.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    servers.select(1)
    await shared.quota(hard={"count/configmaps": "1"})
    servers.select(0)
    assert await refusal(shared, "b") == EXCEEDED
    servers.select(1)
    await shared.client.delete(TEAM, CONFIG_MAPS, "default", "a")
    servers.select(0)
    await shared.client.create(TEAM, CONFIG_MAPS, config_map("b"))
    assert await shared.used() == {"count/configmaps": "1"}
    servers.select(1)
    await shared.client.delete(TEAM, QUOTAS, "default", "q")
    servers.select(0)
    await shared.client.create(TEAM, CONFIG_MAPS, config_map("c"))


async def test_servers_take_turns(shared):
    """Each charges what the others have left."""
    servers = Servers(shared, 3)
    await shared.quota(hard={"configmaps": "9"})
    for number in range(9):
        servers.select(number)
        await shared.client.create(TEAM, CONFIG_MAPS, config_map(f"m-{number}"))
        assert await shared.used() == {"configmaps": str(number + 1)}
    servers.select(0)
    assert "used: configmaps=9" in await refusal(shared, "b")


async def test_writers_on_two_servers_race_for_the_last_unit(shared):
    """Each server decides by what it has seen, and the store about both."""
    servers = Servers(shared, 2)
    await shared.quota(hard={"configmaps": "10"})

    async def write(number: int) -> None:
        servers.select(number)
        await shared.client.create(TEAM, CONFIG_MAPS, config_map(f"m-{number}"))

    answers = await asyncio.gather(*map(write, range(64)), return_exceptions=True)
    assert sum(answer is None for answer in answers) == 10
    assert await shared.used() == {"configmaps": "10"}
    assert len((await shared.client.list(TEAM, CONFIG_MAPS)).items) == 10


async def test_clusters_do_not_share_quotas(charged):
    """The quota of one tenant is nothing to another."""
    other = Name("team-b")
    await charged.registry.clusters.ensure(other)
    await charged.quota(hard={"configmaps": "0"})
    await charged.client.create(other, CONFIG_MAPS, config_map("a"))
    assert await charged.used() == {"configmaps": "0"}


async def test_a_quota_that_vanished_from_the_store_is_no_longer_charged(shared):
    """Even where no server was told."""
    await shared.quota(hard={"configmaps": "0"})
    await refusal(shared, "a")
    await shared.storage.transact((), [Delete(f"{ROOT}/core/resourcequotas/{TEAM}/default/q")])
    await shared.client.create(TEAM, CONFIG_MAPS, config_map("a"))
