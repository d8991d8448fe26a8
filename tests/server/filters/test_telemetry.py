from __future__ import annotations

from functools import partial

import orjson
import pytest
from structlog.testing import capture_logs

from kcp_py.apimachinery.errors import bad_request
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import ROOT
from kcp_py.request.context import RequestContext
from kcp_py.server.bodyreader import ClientDisconnectedError
from kcp_py.server.chain import compose
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter
from kcp_py.server.filters.telemetry import TelemetryFilter
from kcp_py.telemetry.logs import AccessLog
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry

pytestmark = pytest.mark.anyio


class Telemetry:
    def __init__(self, app, *, access_log=None) -> None:
        self.registry = MetricsRegistry()
        self.metrics = RequestMetrics(self.registry)
        filters = (
            ErrorsFilter,
            partial(TelemetryFilter, metrics=self.metrics, access_log=access_log),
            partial(ClusterFilter, default_cluster=ROOT),
            RequestInfoFilter,
        )
        self.app = compose(filters, app)

    def totals(self):
        return {
            (sample.labels["verb"], sample.labels["resource"], sample.labels["code"]): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "apiserver_request_total"
        }

    def series(self):
        return sum(len(family.samples) for family in self.registry.collect())


async def test_resolved_resources_are_named(ask, probe):
    """Once a handler has found the resource, it is a label."""

    async def handler(exchange):
        exchange.resolved = GroupVersionResource("apps", "v1", "deployments")
        await probe(exchange)

    telemetry = Telemetry(handler)
    await ask(telemetry.app, "/apis/apps/v1/deployments")
    assert telemetry.totals() == {("LIST", "deployments", "200"): 1}


async def test_unknown_subresources_are_not_named(ask, probe):
    """Even below a resolved resource, only subresources that exist somewhere are labels."""

    async def handler(exchange):
        exchange.resolved = GroupVersionResource("apps", "v1", "deployments")
        await probe(exchange)

    telemetry = Telemetry(handler)
    await ask(telemetry.app, "/apis/apps/v1/deployments/x/a")
    before = telemetry.series()
    for number in range(50):
        await ask(telemetry.app, f"/apis/apps/v1/deployments/x/a{number}")
    assert telemetry.series() == before


async def test_unresolved_resources_are_not(ask, probe):
    """Values that only the caller has chosen do not become labels."""
    telemetry = Telemetry(probe)
    await ask(telemetry.app, "/apis/secret-project.io/v7/widgets")
    assert telemetry.totals() == {("LIST", "", "200"): 1}


@pytest.mark.parametrize(
    ("error", "target", "code"),
    [
        pytest.param(bad_request("no"), "/api/v1/pods", "400", id="handler"),
        pytest.param(KeyError(), "/api/v1/pods", "500", id="unexpected"),
        pytest.param(ClientDisconnectedError(), "/api/v1/pods", "0", id="client left"),
        pytest.param(None, "/clusters/BAD/api", "400", id="before the request is understood"),
    ],
)
async def test_failures_are_counted(ask, probe, error, target, code):
    """A failure counts under the code that the client gets."""

    async def handler(exchange):
        if error is not None:
            raise error
        await probe(exchange)

    telemetry = Telemetry(handler)
    with capture_logs():
        await ask(telemetry.app, target)
    assert [key[2] for key in telemetry.totals()] == [code]


async def test_in_flight(ask, probe):
    """Requests are counted while they run, by whether they can change anything, and no longer."""
    seen: list[object] = []

    async def handler(exchange):
        seen.append(dict(telemetry.metrics.in_flight))
        await probe(exchange)

    telemetry = Telemetry(handler)
    await ask(telemetry.app, "/api/v1/pods")
    await ask(telemetry.app, "/api/v1/pods", method="POST")
    assert seen == [{"mutating": 0, "readOnly": 1}, {"mutating": 1, "readOnly": 0}]
    assert telemetry.metrics.in_flight == {"mutating": 0, "readOnly": 0}


async def test_series_stay_flat_under_a_flood_of_names(ask, probe):
    """Ten thousand clusters, groups, resources, users' agents and methods make not one series more than one of each."""
    telemetry = Telemetry(probe)
    await ask(telemetry.app, "/clusters/c/apis/g/v1/r")
    await ask(telemetry.app, "/clusters/BAD/api")
    await ask(telemetry.app, "/clusters/c/apis/g/v1/r", method="BREW")
    before = telemetry.series()
    for number in range(10_000):
        agent = [("user-agent", f"agent-{number}"), ("x-kubernetes-cluster", f"c{number}")]
        await ask(telemetry.app, f"/clusters/c{number}/apis/g{number}.io/v{number}/r{number}", headers=agent)
    for number in range(1000):
        await ask(telemetry.app, f"/clusters/BAD{number}/api")
        await ask(telemetry.app, f"/apis/g{number}/v1/r{number}", method=f"VERB{number}")
    assert telemetry.series() == before


@pytest.mark.parametrize(
    ("method", "target", "headers", "expected"),
    [
        pytest.param("GET", "/api/v1/namespaces/a/pods", [], ("LIST", "namespace", ""), id="list"),
        pytest.param("GET", "/api/v1/pods", [], ("LIST", "cluster", ""), id="list of all namespaces"),
        pytest.param("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", [], ("LIST", "cluster", ""), id="list of one name"),
        pytest.param("GET", "/api/v1/namespaces/a/pods?watch=1", [], ("WATCH", "namespace", ""), id="watch"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/x", [], ("GET", "resource", ""), id="get"),
        pytest.param("HEAD", "/api/v1/namespaces/a/pods/x", [], ("GET", "resource", ""), id="head"),
        pytest.param("POST", "/api/v1/namespaces/a/pods", [], ("POST", "resource", ""), id="create"),
        pytest.param("POST", "/api/v1/namespaces/a/pods?dryRun=All", [], ("POST", "resource", "All"), id="dry run"),
        pytest.param("POST", "/api/v1/namespaces/a/pods?dryRun=Some", [], ("POST", "resource", "invalid"), id="invalid dry run"),
        pytest.param("PUT", "/api/v1/namespaces/a/pods/x", [], ("PUT", "resource", ""), id="update"),
        pytest.param("PATCH", "/api/v1/namespaces/a/pods/x", [], ("PATCH", "resource", ""), id="patch"),
        pytest.param(
            "PATCH",
            "/api/v1/namespaces/a/pods/x",
            [("content-type", "application/apply-patch+yaml")],
            ("APPLY", "resource", ""),
            id="apply",
        ),
        pytest.param("DELETE", "/api/v1/namespaces/a/pods/x", [], ("DELETE", "resource", ""), id="delete"),
        pytest.param("DELETE", "/api/v1/namespaces/a/pods", [], ("DELETE", "namespace", ""), id="delete of a collection"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/x/log", [], ("CONNECT", "resource", ""), id="connect"),
        pytest.param("GET", "/version", [], ("GET", "", ""), id="no resource"),
        pytest.param("BREW", "/api/v1/pods", [], ("other", "resource", ""), id="unknown method"),
    ],
)
async def test_labels_are_those_of_upstream(ask, probe, *, method, target, headers, expected):
    """Verb, scope and dry run of a request are what kube-apiserver 1.37 counts the same request as."""
    telemetry = Telemetry(probe)
    await ask(telemetry.app, target, method=method, headers=headers)
    found = [
        (sample.labels["verb"], sample.labels["scope"], sample.labels["dry_run"])
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name == "apiserver_request_total"
    ]
    assert found == [expected]


async def test_health_is_counted_by_path(ask, probe):
    """Health pages are named, as upstream names them; other paths are not."""
    telemetry = Telemetry(probe)
    for path in ("/healthz", "/readyz", "/readyz/etcd", "/x"):
        await ask(telemetry.app, path)
    found = {
        (sample.labels["subresource"], sample.labels["component"]): sample.value
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name == "apiserver_request_total"
    }
    assert found == {("/healthz", ""): 1, ("/readyz", ""): 1, ("", ""): 2}


async def test_watches_are_counted_when_they_end(ask):
    """While a watch runs it is a gauge, and neither in flight nor counted; it counts with its duration and its line at its end."""
    seen: list[object] = []
    lines: list[bytes] = []

    def values(name):
        return [sample.value for family in telemetry.registry.collect() for sample in family.samples if sample.name == name]

    async def handler(exchange):

        async def go_on():
            seen.append((values("apiserver_longrunning_requests"), values("apiserver_request_total"), dict(telemetry.metrics.in_flight)))
            log.flush()
            seen.append(list(lines))
            await exchange.send_chunk(b"{}")
            await exchange.finish()

        exchange.context = RequestContext(exchange.audit_id, exchange.cluster, False, exchange.info, exchange.user, [], {})
        await exchange.start_stream()
        exchange.continuation = go_on

    log = AccessLog(lines.append)
    telemetry = Telemetry(handler, access_log=log)
    await ask(telemetry.app, "/api/v1/pods?watch=1")
    assert seen == [([1], [], {"mutating": 0, "readOnly": 0}), []]
    assert values("apiserver_longrunning_requests") == [0]
    assert values("apiserver_request_total") == [1]
    assert values("apiserver_request_duration_seconds_count") == [1]
    log.flush()
    (line,) = map(orjson.loads, b"".join(lines).splitlines())
    assert (line["verb"], line["status"], line["bytes"]) == ("watch", 200, 2)


async def test_access_log(ask, probe):
    """A line tells who asked for what and how it ended, without the query and without credentials."""
    lines: list[bytes] = []
    log = AccessLog(lines.append)
    telemetry = Telemetry(probe, access_log=log)
    headers = [("authorization", "Bearer secret"), ("user-agent", "agent/1\n{\x1b")]
    answer = await ask(telemetry.app, "/clusters/team-a/api/v1/pods?token=secret", headers=headers)
    refused = await ask(telemetry.app, "/clusters/BAD/api")
    log.flush()
    first, second = map(orjson.loads, b"".join(lines).splitlines())
    assert first.pop("duration_seconds") >= 0
    assert first.pop("timestamp").endswith("Z")
    assert first.pop("peer")
    assert first == {
        "level": "info",
        "event": "request",
        "audit_id": answer.header("audit-id"),
        "method": "GET",
        "status": 200,
        "bytes": 2,
        "cluster": "team-a",
        "verb": "list",
        "path": "/api/v1/pods",
        "user_agent": "agent/1\n{\x1b",
    }
    assert (second["status"], second["path"], second["bytes"]) == (400, "/clusters/BAD/api", len(refused.body))
    assert "cluster" not in second
    assert b"secret" not in b"".join(lines)


async def test_problems_alone_are_logged(ask, probe):
    """Unless every request is to be logged, those that failed on the server's side or took a second are."""
    lines: list[bytes] = []
    log = AccessLog(lines.append, every=False)
    seconds = iter((0.0, 0.5, 10.0, 11.0, 20.0, 20.1))

    async def handler(exchange):
        if exchange.path == "/fails":
            raise KeyError
        await probe(exchange)

    app = compose(
        (
            ErrorsFilter,
            partial(TelemetryFilter, metrics=RequestMetrics(MetricsRegistry()), access_log=log, now=lambda: next(seconds)),
            partial(ClusterFilter, default_cluster=ROOT),
            RequestInfoFilter,
        ),
        handler,
    )
    with capture_logs():
        for path in ("/fast", "/slow", "/fails"):
            await ask(app, path)
    log.flush()
    found = [(line["path"], line["level"], line["status"]) for line in map(orjson.loads, b"".join(lines).splitlines())]
    assert found == [("/slow", "info", 200), ("/fails", "warning", 500)]


async def test_equal_requests_are_counted_together(ask, probe):
    """Also where the labels of the first one are used again; other verbs, namespaces and resources have labels of their own."""

    async def handler(exchange):
        exchange.resolved = GroupVersionResource("", "v1", exchange.info.resource)
        await probe(exchange)

    telemetry = Telemetry(handler)
    for _ in range(3):
        await ask(telemetry.app, "/api/v1/namespaces/a/pods/x")
        await ask(telemetry.app, "/api/v1/namespaces/a/pods/x", method="PUT")
        await ask(telemetry.app, "/api/v1/namespaces/a/pods")
        await ask(telemetry.app, "/api/v1/pods")
        await ask(telemetry.app, "/api/v1/nodes/x")
        await ask(telemetry.app, "/api/v1/namespaces/a/pods/x?pretty=true")
        for media in (b"application/apply-patch+yaml", b"application/merge-patch+json"):
            await ask(telemetry.app, "/api/v1/namespaces/a/pods/x?force=true", method="PATCH", headers=[(b"content-type", media)])
        await ask(telemetry.app, "/api/v1/namespaces/a/pods/x?dryRun=All", method="PUT")
    found = {
        (sample.labels["verb"] + sample.labels["dry_run"], sample.labels["resource"], sample.labels["scope"]): sample.value
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name == "apiserver_request_total"
    }
    assert found == {
        ("GET", "pods", "resource"): 6,
        ("PUT", "pods", "resource"): 3,
        ("PUTAll", "pods", "resource"): 3,
        ("APPLY", "pods", "resource"): 3,
        ("PATCH", "pods", "resource"): 3,
        ("LIST", "pods", "namespace"): 3,
        ("LIST", "pods", "cluster"): 3,
        ("GET", "nodes", "resource"): 3,
    }


async def test_kept_labels_are_bounded(ask, probe, monkeypatch):
    """Tenants may have any number of resources."""
    monkeypatch.setattr("kcp_py.server.filters.telemetry._KEPT_SERIES", 10)

    async def handler(exchange):
        exchange.resolved = GroupVersionResource("", "v1", exchange.info.resource)
        await probe(exchange)

    made = []
    metrics = RequestMetrics(MetricsRegistry())

    def make(inner):
        made.append(TelemetryFilter(inner, metrics=metrics))
        return made[0]

    app = compose((ErrorsFilter, make, partial(ClusterFilter, default_cluster=ROOT), RequestInfoFilter), handler)
    for number in range(25):
        await ask(app, f"/api/v1/r{number}/x")
        assert len(made[0]._series) <= 10
