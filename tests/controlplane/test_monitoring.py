"""The feed of changes as readiness sees it, and reports of failed tasks."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from kcp_py.aio.supervisor import Supervisor
from kcp_py.controlplane.monitoring import Feed, describe_budget, report
from kcp_py.registry.clusterbudget import ClusterBudget, Part
from kcp_py.storage.contract import StorageError
from kcp_py.storage.memory import MemoryStorage
from kcp_py.telemetry.gauges import Gauges
from kcp_py.watchcache import Fanout

pytestmark = pytest.mark.anyio


async def test_the_feed_is_ready_while_changes_are_followed() -> None:
    """Neither before nor behind."""
    feed, started = Feed(), asyncio.Event()
    with pytest.raises(RuntimeError, match="are not followed"):
        await feed.check()
    async with MemoryStorage() as storage, Supervisor(report) as supervisor:
        fanout = Fanout(storage, "/registry")
        supervisor.start("feed", lambda: feed.follow(fanout, started))
        await started.wait()
        await feed.check()
    with pytest.raises(RuntimeError, match="are not followed"):
        await feed.check()


@pytest.mark.parametrize(("error", "traced"), [(StorageError("gone"), False), (ValueError("a defect"), True), (KeyError(), True)])
def test_reports(error: BaseException, *, traced: bool) -> None:
    """An outage of the store has no traceback; any other failure has one, and a text in any case."""
    with capture_logs() as logs:
        report("sweep", error, 2.0)
    (line,) = logs
    assert (line["event"], line["task"], line["restart_seconds"]) == ("task_failed", "sweep", 2.0)
    assert line["error"] == (str(error) or type(error).__name__)
    assert (line["exc_info"] is error) is traced


async def test_the_budget_of_clusters_is_shown() -> None:
    """Bytes by cache, the bound, clusters and evictions; no label names a cluster."""
    budget, gauges, registry = ClusterBudget(10_000), Gauges(), CollectorRegistry()
    describe_budget(budget, gauges)
    registry.register(gauges)
    part: Part[str] = budget.part("rbac", lambda _: None)
    for cluster in ("a", "b"):
        part.hold(cluster, 6_000)
    samples = {(sample.name, *sample.labels.values()): sample.value for family in registry.collect() for sample in family.samples}
    assert samples == {
        ("kcp_cluster_cache_bytes", "rbac"): budget.size,
        ("kcp_cluster_cache_bytes", "shared"): 0,
        ("kcp_cluster_cache_limit_bytes",): 10_000,
        ("kcp_cluster_cache_clusters",): 1,
        ("kcp_cluster_cache_evictions_total",): 1,
    }
