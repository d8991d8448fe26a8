from __future__ import annotations

from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from kcp_py.authn.tokenfile import StaticTokens, parse_tokens
from kcp_py.authz import AlwaysAllowPaths, PrivilegedGroups, Union
from kcp_py.server.chain import ChainSettings, create_edge
from kcp_py.server.pages.health import HealthChecks
from kcp_py.server.pages.shell import create_shell
from kcp_py.telemetry.metrics import RequestMetrics

pytestmark = pytest.mark.anyio


async def no_tree(_exchange):
    raise AssertionError


@pytest.fixture
def get(ask):
    registry = CollectorRegistry()
    settings = ChainSettings(
        authenticator=StaticTokens(parse_tokens("t,admin,1,system:masters", "tokens")),
        authorizer=Union(AlwaysAllowPaths(), PrivilegedGroups()),
        metrics=RequestMetrics(registry),
    )

    async def paths(exchange):
        return ["/api", "/apis", f"/apis/{exchange.context.cluster}.io"]

    def make(**more):
        shell = create_shell(checks=HealthChecks(), registry=registry, paths=paths, **more)
        return partial(ask, create_edge(settings, tree=no_tree, shell=shell), headers=[("authorization", "Bearer t")])

    return make


async def test_index(get):
    """The index lists the paths of the cluster and the fixed pages."""
    answer = await get()("/clusters/team-a/")
    assert answer.json() == {
        "paths": ["/api", "/apis", "/apis/team-a.io", "/healthz", "/healthz/log", "/healthz/ping", "/livez", "/livez/log", "/livez/ping",
                  "/metrics", "/readyz", "/readyz/log", "/readyz/ping", "/version"]
    }  # fmt: skip
    assert answer.header("content-type") == "application/json"


async def test_version(get):
    """The version is an object, indented on request."""
    assert (await get()("/version")).json()["major"] == "1"
    assert b"\n  " in (await get()("/version?pretty=true")).body


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/healthz", "ok"),
        ("/readyz/ping", "ok"),
        ("/livez?verbose", "[+]ping ok\n[+]log ok\nlivez check passed\n"),
        ("/livez?verbose=1&exclude=log&exclude=ping", "[+]ping excluded: ok\n[+]log excluded: ok\nlivez check passed\n"),
        ("/clusters/team-a/readyz?verbose", "[+]ping ok\n[+]log ok\nreadyz check passed\n"),
    ],
)
async def test_health(get, target, text):
    """Health is plain text, bare and below a cluster."""
    answer = await get()(target)
    assert (answer.status, answer.body.decode()) == (200, text)
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    assert answer.header("x-content-type-options") == "nosniff"


async def test_metrics(get):
    """Metrics come in Prometheus' text format."""
    ask = get()
    await ask("/version")
    answer = await ask("/metrics")
    assert 'apiserver_request_total{code="200",group="",resource="",subresource="",verb="get",version=""} 1.0' in answer.body.decode()
    assert (answer.header("content-type") or "").startswith("text/plain")


async def test_docs(get):
    """Documentation of added routes is off, and when it is on it is apart from the API's own."""
    assert (await get()("/docs")).status == 404
    assert (await get(docs=True)("/docs")).status == 200
    document = (await get(docs=True)("/docs/openapi.json")).json()
    assert document["paths"] == {}
    assert (await get(docs=True)("/openapi.json")).status == 404
