from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kcp_py.telemetry.metrics import MAX_RESOURCES, UNRESOLVED, RequestMetrics

PODS = ("", "v1", "pods", "")


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return RequestMetrics(registry)


def samples(registry, name):
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {tuple(sorted(sample.labels.items())): sample.value for family in families for sample in family.samples if sample.name == name}


def test_totals(metrics, registry):
    """Requests are counted by verb, resource and code."""
    metrics.record("get", PODS, 200, 0.1)
    metrics.record("get", PODS, 200, 0.1)
    metrics.record("get", PODS, 404, 0.1)
    found = samples(registry, "apiserver_request_total")
    assert sorted(found.values()) == [1, 2]


def test_durations(metrics, registry):
    """Durations fall into cumulative buckets; their sum and number are kept."""
    for seconds in (0.0004, 0.0005, 0.2, 1000.0):
        metrics.record("list", PODS, 200, seconds)
    buckets = {dict(labels)["le"]: value for labels, value in samples(registry, "apiserver_request_duration_seconds_bucket").items()}
    assert (buckets["0.0005"], buckets["0.1"], buckets["0.25"], buckets["60.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert list(samples(registry, "apiserver_request_duration_seconds_count").values()) == [4]
    assert list(samples(registry, "apiserver_request_duration_seconds_sum").values()) == [pytest.approx(1000.2009)]


def test_watches_have_no_duration(metrics, registry):
    """How long a watch lasts is its client's affair."""
    metrics.record("watch", PODS, 200, None)
    assert not samples(registry, "apiserver_request_duration_seconds_count")


def test_in_flight(metrics, registry):
    """What runs now is a gauge."""
    metrics.in_flight["mutating"] += 3
    found = samples(registry, "apiserver_current_inflight_requests")
    assert found == {(("request_kind", "mutating"),): 3, (("request_kind", "readOnly"),): 0}


def test_unknown_verbs_share_a_label(metrics, registry):
    """A method that nobody knows is not a label."""
    for number in range(1000):
        metrics.record(f"verb-{number}", UNRESOLVED, 405, 0.1)
    assert list(samples(registry, "apiserver_request_total").values()) == [1000]


def test_resources_beyond_the_budget_share_a_label(metrics, registry):
    """Tenants who make many resources do not make as many series, and those before them keep theirs."""
    metrics.record("get", PODS, 200, 0.1)
    for number in range(MAX_RESOURCES * 4):
        metrics.record("get", ("g.io", "v1", f"widgets{number}", ""), 200, 0.1)
    metrics.record("get", PODS, 200, 0.1)
    found = samples(registry, "apiserver_request_total")
    assert len(found) <= MAX_RESOURCES + 2
    assert sum(found.values()) == MAX_RESOURCES * 4 + 2
    assert [value for labels, value in found.items() if dict(labels)["resource"] == "pods"] == [2]
    assert len(metrics._resources) <= MAX_RESOURCES + 1
