"""`QueueMetrics`: upstream's metrics of a work queue (k8s.io/component-base `metrics/prometheus/workqueue`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kcp_py.telemetry.gauges import Gauges, Value
from kcp_py.telemetry.histogram import Histogram, exponential

BUCKETS: Final = exponential(10e-9, 10.0, 10)


class QueueMetrics:
    """Numbers of one queue; the queue fills them in."""

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.waits = Histogram(BUCKETS)
        """Seconds from the addition of a key until a worker took it."""
        self.work = Histogram(BUCKETS)
        """Seconds for which a worker had a key."""
        self.depth: Callable[[], int] = int
        self.running: Callable[[], Iterable[float]] = tuple
        """Seconds for which workers have had the keys that they have."""


def describe_queues(gauges: Gauges, queues: Mapping[str, QueueMetrics]) -> None:
    """Add the families of several queues, by the names of their controllers."""

    def each(read: Callable[[QueueMetrics], Value]) -> Callable[[], dict[tuple[str, ...], Value]]:
        return lambda: {(name,): read(queue) for name, queue in queues.items()}

    label = ("name",)
    gauges.add("workqueue_depth", "Current depth of workqueue", each(lambda queue: queue.depth()), labels=label)
    gauges.add("workqueue_adds", "Total number of adds handled by workqueue", each(lambda queue: queue.adds), kind="counter", labels=label)
    gauges.add(
        "workqueue_retries", "Total number of retries handled by workqueue", each(lambda queue: queue.retries), kind="counter", labels=label
    )
    gauges.add(
        "workqueue_queue_duration_seconds",
        "How long in seconds an item stays in workqueue before being requested.",
        each(lambda queue: queue.waits),
        kind="histogram",
        labels=label,
    )
    gauges.add(
        "workqueue_work_duration_seconds",
        "How long in seconds processing an item from workqueue takes.",
        each(lambda queue: queue.work),
        kind="histogram",
        labels=label,
    )
    gauges.add(
        "workqueue_unfinished_work_seconds",
        "Seconds of work in progress that work_duration has not observed yet.",
        each(lambda queue: sum(queue.running())),
        labels=label,
    )
    gauges.add(
        "workqueue_longest_running_processor_seconds",
        "Seconds for which the longest running worker has had its item.",
        each(lambda queue: max(queue.running(), default=0.0)),
        labels=label,
    )
