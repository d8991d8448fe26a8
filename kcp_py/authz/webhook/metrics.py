"""`WebhookMetrics`: kube-apiserver's metrics of authorization webhooks (`plugin/pkg/authorizer/webhook/metrics`).

The labels are names of the operator's configuration and a fixed set of results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kcp_py.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LABELS: Final = ("name", "result")


class WebhookMetrics:
    """Calls of webhooks by name and result: `success`, `error`, `timeout` or `canceled`."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str], Histogram] = {}
        self._fail_open: Counter[tuple[str, str]] = Counter()

    def record(self, name: str, result: str, seconds: float) -> None:
        """Count a call."""
        durations = self._durations.get((name, result))
        if durations is None:
            durations = self._durations[name, result] = Histogram(_BUCKETS)
        durations.observe(seconds)

    def record_fail_open(self, name: str, result: str) -> None:
        """Count a request that is left to other authorizers because the webhook failed."""
        self._fail_open[name, result] += 1

    def collect(self) -> Iterator[Metric]:
        """The metric families. It may be called from any thread."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily  # noqa: PLC0415 - slow to import

        calls = CounterMetricFamily("apiserver_authorization_webhook_evaluations", "Calls of authorization webhooks.", labels=_LABELS)
        duration = HistogramMetricFamily(
            "apiserver_authorization_webhook_duration_seconds", "Duration of calls of authorization webhooks.", labels=_LABELS
        )
        for labels, durations in self._durations.copy().items():
            buckets = durations.buckets()
            calls.add_metric(labels, buckets[-1][1])
            duration.add_metric(labels, buckets, durations.total)
        fail_open = CounterMetricFamily(
            "apiserver_authorization_webhook_evaluations_fail_open",
            "Requests that were left to other authorizers because an authorization webhook failed.",
            labels=_LABELS,
        )
        for labels, count in self._fail_open.copy().items():
            fail_open.add_metric(labels, count)
        yield from (calls, duration, fail_open)
