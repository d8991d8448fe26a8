from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial

import pytest

from kcp_py.authn.tokenfile import StaticTokens, parse_tokens
from kcp_py.authn.tokens import BearerTokens
from kcp_py.authz import AlwaysAllowPaths, AuthorizerUnion, PrivilegedGroups
from kcp_py.server.chain import ChainSettings, create_asgi_app
from kcp_py.server.pages.fixed import create_fixed_pages
from kcp_py.server.pages.health import HealthChecks
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry
from tests.server.conftest import lifespan

pytestmark = pytest.mark.anyio


async def no_tree(_exchange):
    raise AssertionError


@pytest.fixture
def get(ask):
    registry = MetricsRegistry()
    settings = ChainSettings(
        authenticator=BearerTokens(StaticTokens(parse_tokens("t,admin,1,system:masters", "tokens")), ()),
        authorizer=AuthorizerUnion(AlwaysAllowPaths(), PrivilegedGroups()),
        metrics=RequestMetrics(registry),
    )

    async def paths(exchange):
        return ["/api", "/apis", f"/apis/{exchange.context.cluster}.io"]

    def make(**more):
        pages = create_fixed_pages(checks=HealthChecks(), registry=registry, paths=paths, **more)
        return partial(ask, create_asgi_app(settings, resources=no_tree, pages=pages), headers=[("authorization", "Bearer t")])

    return make


async def test_index(get):
    """The index lists the paths of the cluster and the fixed pages."""
    answer = await get()("/clusters/team-a/")
    assert answer.json() == {
        "paths": ["/api", "/apis", "/apis/team-a.io", "/healthz", "/healthz/log", "/healthz/ping", "/livez", "/livez/log", "/livez/ping",
                  "/metrics", "/readyz", "/readyz/log", "/readyz/ping", "/version"]
    }  # fmt: skip
    assert answer.header("content-type") == "application/json"


@pytest.mark.parametrize("path", ["/version", "/version/"])
async def test_version(get, path):
    """The version is an object, indented for people, with and without a slash."""
    answer = await get()(path)
    assert answer.json()["major"] == "1"
    assert b'\n  "major": "1"' in answer.body


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
    assert (
        'apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 1.0'
        in answer.body.decode()
    )
    assert "process_resident_memory_bytes" in answer.body.decode()
    assert (answer.header("content-type") or "").startswith("text/plain")


async def test_docs(get):
    """Documentation of added routes is off; when it is on, it is separate from that of the API."""
    assert (await get()("/docs")).status == 404
    assert (await get(docs=True)("/docs")).status == 200
    document = (await get(docs=True)("/docs/openapi.json")).json()
    assert document["paths"] == {}
    assert (await get(docs=True)("/openapi.json")).status == 404


@pytest.fixture
def pages():
    return create_fixed_pages(checks=HealthChecks(), registry=MetricsRegistry())


def test_the_framework_waits():
    """What takes long to import is not imported by what a server starts with."""
    code = (
        "import sys, kcp_py.server.chain, kcp_py.server.pages.fixed; sys.exit(bool({'fastapi', 'prometheus_client'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_application_is_made_once(pages):
    """Requests that come together make one application."""
    assert await lifespan(pages) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert pages._application is None
    await asyncio.gather(pages.warm(), pages.warm())
    made = pages.application
    await pages.warm()
    assert pages.application is made


async def test_lifespan_of_a_library_user():
    """The lifespan of the caller runs, and so do those of the added routes."""
    log = []

    @asynccontextmanager
    async def running(_application):
        log.append("start")
        yield
        log.append("stop")

    made = create_fixed_pages(checks=HealthChecks(), registry=MetricsRegistry(), lifespan=running)
    assert await lifespan(made) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert log == ["start", "stop"]


@pytest.mark.parametrize("target", ["/healthz/nosuch", "/readyz/", "/livez/ping/x"])
async def test_unknown_check(get, target):
    """A check that there is not is an unknown path."""
    answer = await get()(target)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_health_by_head(get):
    """HEAD is answered without a body, and any other method like GET: the method is not read."""
    answer = await get()("/healthz", method="HEAD")
    assert (answer.status, answer.body, answer.header("content-length")) == (200, b"", "2")
    answer = await get()("/healthz", method="POST", body=b"x")
    assert (answer.status, answer.body) == (200, b"ok")
