"""Upstream's metrics of work queues."""

from __future__ import annotations

import pytest

from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.controllers.runtime.queuemetrics import describe_queues
from kcp_py.logicalcluster import Name
from kcp_py.telemetry.gauges import Gauges

pytestmark = pytest.mark.anyio

A = Name("a")


async def test_a_queue_is_measured():
    """Depth, additions, retries, waiting and working times are those of the keys, each counted once however often it is added."""
    now = 100.0
    queue = WorkQueue(per_cluster=2, clock=lambda: now, jitter=lambda: 0.0)
    gauges = Gauges()
    describe_queues(gauges, {"namespace": queue.metrics})

    def value(name):
        found = [sample for family in gauges.collect() for sample in family.samples if sample.name == name]
        assert {sample.labels["name"] for sample in found} == {"namespace"}
        return found[0].value

    one, two = Key(A, "", "one"), Key(A, "", "two")
    for key in (one, one, two):
        queue.add(key)
    assert (value("workqueue_adds_total"), value("workqueue_depth")) == (2, 2)
    now += 3
    assert await queue.take() == one
    assert (value("workqueue_depth"), value("workqueue_queue_duration_seconds_sum")) == (1, 3)
    now += 4
    queue.add(one)
    queue.add(one)
    assert value("workqueue_adds_total") == 3
    assert (value("workqueue_unfinished_work_seconds"), value("workqueue_longest_running_processor_seconds")) == (4, 4)
    queue.done(one)
    assert (value("workqueue_work_duration_seconds_sum"), value("workqueue_adds_total"), value("workqueue_depth")) == (4, 3, 2)
    queue.retry(two)
    assert value("workqueue_retries_total") == 1
    queue.close()
