from __future__ import annotations

from functools import partial

import orjson
import pytest
from structlog.testing import capture_logs

from kcp_py.apimachinery.errors import bad_request
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.exchange import ClientDisconnectedError, exchange_of
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

    async def handler(scope, receive, send):
        exchange_of(scope).resolved = GroupVersionResource("apps", "v1", "deployments")
        await probe(scope, receive, send)

    telemetry = Telemetry(handler)
    await ask(telemetry.app, "/apis/apps/v1/deployments")
    assert telemetry.totals() == {("list", "deployments", "200"): 1}


async def test_unknown_subresources_are_not_named(ask, probe):
    """Even below a resolved resource, only subresources that exist somewhere are labels."""

    async def handler(scope, receive, send):
        exchange_of(scope).resolved = GroupVersionResource("apps", "v1", "deployments")
        await probe(scope, receive, send)

    telemetry = Telemetry(handler)
    await ask(telemetry.app, "/apis/apps/v1/deployments/x/a")
    before = telemetry.series()
    for number in range(50):
        await ask(telemetry.app, f"/apis/apps/v1/deployments/x/a{number}")
    assert telemetry.series() == before


async def test_unresolved_resources_are_not(ask, probe):
    """What a caller only asked for is no label."""
    telemetry = Telemetry(probe)
    await ask(telemetry.app, "/apis/secret-project.io/v7/widgets")
    assert telemetry.totals() == {("list", "", "200"): 1}


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

    async def handler(scope, receive, send):
        if error is not None:
            raise error
        await probe(scope, receive, send)

    telemetry = Telemetry(handler)
    with capture_logs():
        await ask(telemetry.app, target)
    assert [key[2] for key in telemetry.totals()] == [code]


async def test_in_flight(ask, probe):
    """Requests are counted while they run, by whether they can change anything, and no longer."""
    seen = []

    async def handler(scope, receive, send):
        seen.append(dict(telemetry.metrics.in_flight))
        await probe(scope, receive, send)

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


async def test_access_log(ask, probe):
    """A line tells what was asked for and how it ended."""
    lines: list[bytes] = []
    log = AccessLog(lines.append)
    telemetry = Telemetry(probe, access_log=log)
    answer = await ask(telemetry.app, "/clusters/team-a/api/v1/pods?token=secret", headers=[("authorization", "Bearer secret")])
    await ask(telemetry.app, "/clusters/BAD/api")
    log.flush()
    first, second = map(orjson.loads, b"".join(lines).splitlines())
    assert first.pop("milliseconds") >= 0
    assert first == {
        "event": "request",
        "audit_id": answer.header("audit-id"),
        "method": "GET",
        "code": 200,
        "bytes": 2,
        "cluster": "team-a",
        "verb": "list",
        "path": "/api/v1/pods",
    }
    assert second["code"] == 400
    assert "cluster" not in second
    assert b"secret" not in b"".join(lines)
