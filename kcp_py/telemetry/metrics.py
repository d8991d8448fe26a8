"""`RequestMetrics`: kube-apiserver's request metrics, with labels that callers cannot grow.

A label holds only what was resolved: a verb of a fixed set, a status code, a resource that the cluster serves. What tenants can invent in
any number (clusters, users, names, user agents, unknown groups) is in no label, and as tenants can also make many CRDs, resources beyond a
budget share one label value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kcp_py.telemetry.registry import Registry

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_RESOURCES: Final = 500
"""Distinct resources with labels of their own."""
OTHER: Final = "other"

_VERBS: Final = frozenset(
    ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put", "head", "options", "apply")
)
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BOUNDS: Final = (*map(str, _BUCKETS), "+Inf")

Resolved = tuple[str, str, str, str]
"""Group, version, resource, subresource; all empty where no resource was resolved."""
UNRESOLVED: Final[Resolved] = ("", "", "", "")
_OTHERS: Final[Resolved] = (OTHER, OTHER, OTHER, OTHER)


class RequestMetrics:
    """The request metrics of one server.

    Recording happens with every request, on the event loop alone: plain numbers in dictionaries, which `collect` turns into metric families
    when they are asked for.
    """

    def __init__(self, registry: Registry) -> None:
        self.in_flight: dict[str, int] = {"mutating": 0, "readOnly": 0}
        """By kind; whoever starts and ends a request counts here."""
        self._resources: set[Resolved] = {UNRESOLVED}
        self._totals: dict[tuple[str, Resolved, int], int] = {}
        self._durations: dict[tuple[str, str, str, str], _Durations] = {}
        registry.register(self)

    def record(self, verb: str, resolved: Resolved, code: int, seconds: float | None) -> None:
        """Count a request that has ended.

        Args:
            verb: anything; unknown ones share a label.
            resolved: `UNRESOLVED`, or what the cluster really serves.
            code: HTTP status; 0 where the client left before there was one.
            seconds: None for watches, which last as long as their clients like.
        """
        if verb not in _VERBS:
            verb = OTHER
        if resolved not in self._resources:
            resolved = self._admit(resolved)
        key = (verb, resolved, code)
        self._totals[key] = self._totals.get(key, 0) + 1
        if seconds is not None:
            timed = (verb, resolved[0], resolved[1], resolved[2])
            durations = self._durations.get(timed)
            if durations is None:
                durations = self._durations[timed] = _Durations()
            durations.counts[bisect_left(_BUCKETS, seconds)] += 1
            durations.total += seconds

    def _admit(self, resolved: Resolved) -> Resolved:
        if len(self._resources) > MAX_RESOURCES:
            return _OTHERS
        self._resources.add(resolved)
        return resolved

    def collect(self) -> Iterator[Metric]:
        """The metric families as they stand; may be called from any thread."""
        from prometheus_client.core import (  # noqa: PLC0415 - slow to import, and nobody may ever look
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        labels = ("verb", "group", "version", "resource", "subresource", "code")
        total = CounterMetricFamily("apiserver_request", "Requests by verb, resource and status code.", labels=labels)
        for (verb, resolved, code), count in self._totals.copy().items():
            total.add_metric((verb, *resolved, str(code)), count)
        yield total
        duration = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time from the request's head to the end of its response, watches excepted.",
            labels=("verb", "group", "version", "resource"),
        )
        for key, durations in self._durations.copy().items():
            running = accumulate(durations.counts.copy())
            duration.add_metric(key, list(zip(_BOUNDS, running, strict=True)), durations.total)
        yield duration
        gauge = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests that are being served, watches included.", labels=("request_kind",)
        )
        for kind, count in self.in_flight.copy().items():
            gauge.add_metric((kind,), count)
        yield gauge


class _Durations:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0
