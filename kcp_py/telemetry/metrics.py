"""`RequestMetrics`: kube-apiserver's request metrics, with labels that callers cannot grow.

Names, labels, verbs and buckets are those of k8s.io/apiserver `pkg/endpoints/metrics/metrics.go`. A label contains only resolved values: a
verb of a fixed set, a status code, a resource that the cluster serves. Labels contain no values that tenants can choose freely (clusters,
users, names, user agents, unknown groups). Tenants can also create many CRDs: resources beyond a budget share one label value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kcp_py.telemetry.histogram import Histogram, exponential
from kcp_py.telemetry.registry import Registry

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_RESOURCES: Final = 500
"""The number of resources with labels of their own."""
OTHER: Final = "other"

_VERBS: Final = frozenset(("APPLY", "CONNECT", "DELETE", "GET", "LIST", "PATCH", "POST", "PUT", "WATCH"))
_MEASURED_SIZES: Final = frozenset(("GET", "LIST"))
DURATION_BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
SIZE_BUCKETS: Final = exponential(1000.0, 10.0, 7)
EVENT_SIZE_BUCKETS: Final = exponential(1024.0, 2.0, 8)

Resolved = tuple[str, str, str, str]
"""Group, version, resource, subresource; all empty if no resource was resolved."""
UNRESOLVED: Final[Resolved] = ("", "", "", "")
_OTHERS: Final[Resolved] = (OTHER, OTHER, OTHER, OTHER)
_LABELS: Final = ("group", "version", "resource", "subresource", "scope", "component")


class RequestSeries:
    """The counts of requests that have equal labels except for the status code."""

    __slots__ = ("codes", "durations", "running", "sizes")

    def __init__(self, verb: str) -> None:
        self.codes: dict[int, int] = {}
        self.durations = Histogram(DURATION_BUCKETS)
        self.sizes = Histogram(SIZE_BUCKETS) if verb in _MEASURED_SIZES else None
        self.running: int | None = None
        """The number of running long-running requests, or None if none was ever started."""

    def record(self, code: int, seconds: float, size: int = 0) -> None:
        """Count a request that has ended.

        Args:
            code: HTTP status; 0 if the client disconnected before the answer.
            seconds: the time from the head of the request to the end of the response.
            size: the bytes of the body of the response.
        """
        self.codes[code] = self.codes.get(code, 0) + 1
        self.durations.observe(seconds)
        if self.sizes is not None:
            self.sizes.observe(size)


class EventSeries:
    """The events that were sent to the watches of one resource."""

    __slots__ = ("sizes",)

    def __init__(self) -> None:
        self.sizes = Histogram(EVENT_SIZE_BUCKETS)

    def record(self, frames: Sequence[bytes]) -> None:
        """Count encoded events that were sent."""
        observe = self.sizes.observe
        for frame in frames:
            observe(len(frame))


_Key = tuple[str, str, Resolved, str]
"""Verb, dry run, resource, scope."""


class RequestMetrics:
    """The request metrics of one server.

    Each request is recorded on the event loop, as plain numbers in dictionaries. `collect` turns them into metric families when they are
    requested.
    """

    def __init__(self, registry: Registry) -> None:
        self.in_flight: dict[str, int] = {"mutating": 0, "readOnly": 0}
        """The number of requests in flight by kind, maintained by the filter that starts and ends them."""
        self._resources: set[Resolved] = {UNRESOLVED}
        self._series: dict[_Key, RequestSeries] = {}
        self._events: dict[Resolved, EventSeries] = {}
        registry.register(self)

    def series(self, verb: str, resolved: Resolved, *, scope: str = "", dry_run: str = "") -> RequestSeries:
        """The series in which a request is counted.

        Args:
            verb: upstream's verb, in capitals; unknown verbs share a label.
            resolved: `UNRESOLVED`, or a resource that the cluster serves.
            scope: `resource`, `namespace`, `cluster` or empty.
            dry_run: `All`, `invalid` or empty.
        """
        if verb not in _VERBS:
            verb = OTHER
        if resolved not in self._resources:
            resolved = self._admit(resolved)
        key = (verb, dry_run, resolved, scope)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = RequestSeries(verb)
        return series

    def events(self, group: str, version: str, resource: str) -> EventSeries:
        """The series in which the events of a watch of a served resource are counted."""
        resolved = (group, version, resource, "")
        if resolved not in self._resources:
            resolved = self._admit(resolved)
        series = self._events.get(resolved)
        if series is None:
            series = self._events[resolved] = EventSeries()
        return series

    def _admit(self, resolved: Resolved) -> Resolved:
        if len(self._resources) > MAX_RESOURCES:
            return _OTHERS
        self._resources.add(resolved)
        return resolved

    def collect(self) -> Iterator[Metric]:
        """The metric families with their current values. It may be called from any thread."""
        from prometheus_client.core import (  # noqa: PLC0415 - slow to import, and metrics may never be requested
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        total = CounterMetricFamily(
            "apiserver_request", "Counter of requests by verb, resource and status code.", labels=("verb", "dry_run", *_LABELS, "code")
        )
        duration = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time from the request's head to the end of its response.",
            labels=("verb", "dry_run", *_LABELS),
        )
        size = HistogramMetricFamily("apiserver_response_sizes", "Bytes of the responses to GET and LIST.", labels=("verb", *_LABELS))
        running = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Long-running requests (watches) that are open.", labels=("verb", *_LABELS)
        )
        sizes: dict[tuple[str, ...], list[Histogram]] = {}
        for (verb, dry_run, resolved, scope), series in self._series.copy().items():
            component = "apiserver" if resolved[2] else ""
            labels = (*resolved, scope, component)
            for code, count in series.codes.copy().items():
                total.add_metric((verb, dry_run, *labels, str(code)), count)
            if series.codes:
                duration.add_metric((verb, dry_run, *labels), series.durations.buckets(), series.durations.total)
            if series.sizes is not None and series.codes:
                sizes.setdefault((verb, *labels), []).append(series.sizes)
            if series.running is not None:
                running.add_metric((verb, *labels), series.running)
        for size_labels, histograms in sizes.items():
            size.add_metric(size_labels, *_merged(histograms))
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests that are being served, watches excepted.", labels=("request_kind",)
        )
        for kind, running_now in self.in_flight.copy().items():
            in_flight.add_metric((kind,), running_now)
        sent = CounterMetricFamily("apiserver_watch_events", "Events sent to watches.", labels=("group", "version", "resource"))
        sent_sizes = HistogramMetricFamily(
            "apiserver_watch_events_sizes", "Bytes of the events sent to watches.", labels=("group", "version", "resource")
        )
        for resolved, events in self._events.copy().items():
            buckets = events.sizes.buckets()
            sent.add_metric(resolved[:3], buckets[-1][1])
            sent_sizes.add_metric(resolved[:3], buckets, events.sizes.total)
        yield from (total, duration, size, running, in_flight, sent, sent_sizes)


def _merged(histograms: Iterable[Histogram]) -> tuple[list[tuple[str, float]], float]:
    """The sum of histograms with equal bounds. Durations have a label for dry runs, and sizes do not."""
    columns = [histogram.buckets() for histogram in histograms]
    buckets = [(column[0][0], sum(count for _, count in column)) for column in zip(*columns, strict=True)]
    return buckets, sum(histogram.total for histogram in histograms)
