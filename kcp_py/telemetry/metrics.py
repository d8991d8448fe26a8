"""`RequestMetrics`: kube-apiserver's request metrics, with labels that callers cannot grow.

A label holds only what was resolved: a verb of a fixed set, a status code, a resource that the cluster serves. What tenants can invent in
any number (clusters, users, names, user agents, unknown groups) is in no label, and as tenants can also make many CRDs, resources beyond a
budget share one label value.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MAX_RESOURCES: Final = 500
"""Distinct resources with labels of their own."""
OTHER: Final = "other"

_VERBS: Final = frozenset(
    ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put", "head", "options", "apply")
)
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Resolved = tuple[str, str, str, str]
"""Group, version, resource, subresource; all empty where no resource was resolved."""
UNRESOLVED: Final[Resolved] = ("", "", "", "")


class RequestMetrics:
    """The metrics of one server, in a registry of its own. Children are looked up once per combination of labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("verb", "group", "version", "resource", "subresource")
        self._total = Counter("apiserver_request", "Requests by verb, resource and status code.", (*labels, "code"), registry=registry)
        self._duration = Histogram(
            "apiserver_request_duration_seconds",
            "Time from the request's head to the end of its response, watches excepted.",
            ("verb", "group", "version", "resource"),
            buckets=_BUCKETS,
            registry=registry,
        )
        in_flight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests that are being served, by kind: mutating, readOnly, watch.",
            ("request_kind",),
            registry=registry,
        )
        self.mutating = in_flight.labels("mutating")
        self.read_only = in_flight.labels("readOnly")
        self.watch = in_flight.labels("watch")
        self._resources: set[Resolved] = {UNRESOLVED}
        self._counters: dict[tuple[str, Resolved, int], Counter] = {}
        self._histograms: dict[tuple[str, Resolved], Histogram] = {}

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
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._total.labels(verb, *resolved, str(code))
        counter.inc()
        if seconds is not None:
            histogram = self._histograms.get((verb, resolved))
            if histogram is None:
                histogram = self._histograms[verb, resolved] = self._duration.labels(verb, *resolved[:3])
            histogram.observe(seconds)

    def _admit(self, resolved: Resolved) -> Resolved:
        if len(self._resources) > MAX_RESOURCES:
            return (OTHER, OTHER, OTHER, OTHER)
        self._resources.add(resolved)
        return resolved
