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


def count(metrics, verb, resolved, code, seconds=0.1, *, size=0, **labels):
    metrics.series(verb, resolved, **labels).record(code, seconds, size)


def test_totals(metrics, registry):
    """Requests are counted by upstream's labels."""
    count(metrics, "GET", PODS, 200, scope="resource")
    count(metrics, "GET", PODS, 200, scope="resource")
    count(metrics, "POST", PODS, 201, scope="resource", dry_run="All")
    found = samples(registry, "apiserver_request_total")
    labels = {"group": "", "version": "v1", "resource": "pods", "subresource": "", "scope": "resource", "component": "apiserver"}
    assert found == {
        tuple(sorted({**labels, "verb": "GET", "dry_run": "", "code": "200"}.items())): 2,
        tuple(sorted({**labels, "verb": "POST", "dry_run": "All", "code": "201"}.items())): 1,
    }


def test_durations(metrics, registry):
    """Durations fall into upstream's cumulative buckets, named as Go's library names them; their sum and number are kept."""
    for seconds in (0.004, 0.005, 0.2, 1000.0):
        count(metrics, "LIST", PODS, 200, seconds)
    buckets = {dict(labels)["le"]: value for labels, value in samples(registry, "apiserver_request_duration_seconds_bucket").items()}
    assert (buckets["0.005"], buckets["0.1"], buckets["0.2"], buckets["60"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert len(buckets) == 24
    assert list(samples(registry, "apiserver_request_duration_seconds_count").values()) == [4]
    assert list(samples(registry, "apiserver_request_duration_seconds_sum").values()) == [pytest.approx(1000.209)]


def test_sizes_of_reads(metrics, registry):
    """Sizes are kept of GET and LIST, in one series whether dry run or not."""
    count(metrics, "LIST", PODS, 200, size=1500, scope="cluster")
    count(metrics, "LIST", PODS, 200, size=10, scope="cluster", dry_run="invalid")
    count(metrics, "PUT", PODS, 200, size=1500, scope="resource")
    found = samples(registry, "apiserver_response_sizes_bucket")
    assert {dict(labels)["le"]: value for labels, value in found.items()} == {
        "1000": 1,
        "10000": 2,
        "100000": 2,
        "1e+06": 2,
        "1e+07": 2,
        "1e+08": 2,
        "1e+09": 2,
        "+Inf": 2,
    }
    assert {dict(labels)["verb"] for labels in found} == {"LIST"}
    assert list(samples(registry, "apiserver_response_sizes_sum").values()) == [1510]


def test_long_running(metrics, registry):
    """Requests that run on are a gauge of those that have a beginning; other verbs have none."""
    metrics.series("WATCH", PODS, scope="cluster").running = 2
    count(metrics, "GET", PODS, 200)
    found = samples(registry, "apiserver_longrunning_requests")
    assert [(dict(labels)["verb"], value) for labels, value in found.items()] == [("WATCH", 2)]
    assert {dict(labels)["verb"] for labels in samples(registry, "apiserver_request_duration_seconds_count")} == {"GET"}


def test_watch_events(metrics, registry):
    """Events sent to watches are counted with their sizes, by resource."""
    metrics.events("", "v1", "pods").record([b"x" * 1000, b"x" * 3000])
    metrics.events("", "v1", "pods").record([b"x"])
    assert list(samples(registry, "apiserver_watch_events_total").values()) == [3]
    found = {dict(labels)["le"]: value for labels, value in samples(registry, "apiserver_watch_events_sizes_bucket").items()}
    assert (found["1024"], found["2048"], found["4096"], found["131072"], found["+Inf"]) == (2, 2, 3, 3, 3)


def test_in_flight(metrics, registry):
    """What runs now is a gauge."""
    metrics.in_flight["mutating"] += 3
    found = samples(registry, "apiserver_current_inflight_requests")
    assert found == {(("request_kind", "mutating"),): 3, (("request_kind", "readOnly"),): 0}


def test_unknown_verbs_share_a_label(metrics, registry):
    """A method that is unknown is not a label."""
    for number in range(1000):
        count(metrics, f"VERB-{number}", UNRESOLVED, 405)
    assert list(samples(registry, "apiserver_request_total").values()) == [1000]


def test_resources_beyond_the_budget_share_a_label(metrics, registry):
    """Tenants who make many resources do not make as many series, and those before them keep theirs."""
    count(metrics, "GET", PODS, 200)
    for number in range(MAX_RESOURCES * 4):
        count(metrics, "GET", ("g.io", "v1", f"widgets{number}", ""), 200)
        metrics.events("g.io", "v1", f"gadgets{number}").record([b"x"])
    count(metrics, "GET", PODS, 200)
    found = samples(registry, "apiserver_request_total")
    assert len(found) <= MAX_RESOURCES + 2
    assert sum(found.values()) == MAX_RESOURCES * 4 + 2
    assert [value for labels, value in found.items() if dict(labels)["resource"] == "pods"] == [2]
    assert len(metrics._resources) <= MAX_RESOURCES + 1
    assert len(samples(registry, "apiserver_watch_events_total")) <= MAX_RESOURCES + 1
