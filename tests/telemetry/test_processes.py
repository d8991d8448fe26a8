"""The metrics of several processes are one page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from prometheus_client import generate_latest
from prometheus_client.registry import Collector

from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.processes import ProcessMetrics
from kcp_py.telemetry.registry import MetricsRegistry


def metrics_of(name: str, value: float, *, only: str = "", reports: Sequence[bytes] = ()) -> ProcessMetrics:
    """The metrics of a process with a counter, and with a gauge that the others lack."""
    gauges = Gauges()
    gauges.add("kcp_things", "Things.", lambda: {("a b",): value, ("c",): float("inf")}, kind="counter", labels=("kind",))
    if only:
        gauges.add(only, "Of one process.", lambda: value)
    registry = MetricsRegistry()
    registry.register(gauges)

    async def others() -> Sequence[bytes]:
        return reports

    return ProcessMetrics(name, registry, others)


class Page(Collector):
    """What a scrape collects."""

    def __init__(self, metrics: ProcessMetrics, reports: Sequence[bytes]) -> None:
        self._collect = lambda: metrics.merged(reports)

    def collect(self):
        """The families."""
        return self._collect()


@pytest.mark.anyio
async def test_each_family_is_there_once_with_the_samples_of_all() -> None:
    """Samples say which process they are of; families that one process lacks, and infinite values, are kept."""
    other = metrics_of("worker-1", 2.0, only="kcp_own").report()
    metrics = metrics_of("owner", 1.0, reports=[other])
    lines = generate_latest(Page(metrics, await metrics.others())).decode().splitlines()
    assert lines.count("# TYPE kcp_things_total counter") == 1
    assert [line for line in lines if line.startswith("kcp_")] == [
        'kcp_things_total{kind="a b",process="owner"} 1.0',
        'kcp_things_total{kind="c",process="owner"} +Inf',
        'kcp_things_total{kind="a b",process="worker-1"} 2.0',
        'kcp_things_total{kind="c",process="worker-1"} +Inf',
        'kcp_own{process="worker-1"} 2.0',
    ]
    assert sum(line.startswith("process_resident_memory_bytes{") for line in lines) == 2
