from __future__ import annotations

import asyncio
import gc
from functools import partial

import pytest
from fastapi import APIRouter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send
from structlog.testing import capture_logs
from uvicorn import Config

from kcp_py.apimachinery.errors import not_found
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.authn import UserInfo
from kcp_py.authn.tokenfile import StaticTokens, parse_tokens
from kcp_py.authn.tokens import BearerTokens
from kcp_py.authz import ALLOWED, AlwaysAllowPaths, AuthorizerUnion, PrivilegedGroups
from kcp_py.logicalcluster import Name
from kcp_py.server.chain import ASGIApplication, ChainSettings, compose, create_asgi_app, filters
from kcp_py.server.exchange import Exchange
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.wildcard import WildcardFilter
from kcp_py.server.pages.fixed import create_fixed_pages
from kcp_py.server.pages.health import HealthChecks
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry
from tests.server.conftest import lifespan

pytestmark = pytest.mark.anyio

ADMIN = [("authorization", "Bearer admin-token")]
ALICE = [("authorization", "Bearer alice-token")]
TOKENS = 'admin-token,admin,1,"system:masters"\nalice-token,alice,2,"team"\n'


class Server:
    """The whole edge, around a resource tree that remembers what reached it."""

    def __init__(self) -> None:
        self.seen: list[Exchange] = []
        registry = MetricsRegistry()
        chain = ChainSettings(
            authenticator=BearerTokens(StaticTokens(parse_tokens(TOKENS, "tokens")), ()),
            authorizer=AuthorizerUnion(AlwaysAllowPaths(), PrivilegedGroups()),
            metrics=RequestMetrics(registry),
        )
        self.pages = create_fixed_pages(checks=HealthChecks(), registry=registry)
        router = APIRouter()

        @router.get("/mounted")
        async def mounted() -> dict[str, str]:
            return {"hello": "there"}

        @router.get("/mounted/typed/{number}")
        async def typed(number: int) -> int:
            return number

        @router.get("/mounted/missing")
        async def missing() -> None:
            raise not_found(GroupResource("g.io", "widgets"), "x")

        @router.get("/mounted/broken")
        async def broken() -> None:
            raise KeyError("an inner secret")

        self.pages.application.include_router(router)
        self.edge = create_asgi_app(chain, resources=self.tree, pages=self.pages)

    async def tree(self, exchange: Exchange) -> None:
        self.seen.append(exchange)
        await exchange.respond(200, b'{"from":"tree"}')


@pytest.fixture
def server():
    return Server()


PUBLIC = ["/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz?verbose", "/version", "/clusters/a/healthz", "/clusters/a/livez/ping",
          "/clusters/a/version", "/clusters/nosuch/readyz"]  # fmt: skip
GUARDED = ["/", "/metrics", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/api/v1/pods", "/api/v1/namespaces/n/secrets/s", "/openapi/v2",
           "/openapi/v3", "/openapi.json", "/docs", "/docs/openapi.json", "/redoc", "/mounted", "/mounted/typed/1", "/mounted/broken",
           "/nosuch", "/debug/pprof", "/.well-known/openid-configuration",
           "/clusters/a/api/v1/pods", "/clusters/*/api/v1/pods", "/healthzz",
           "/version/x/y", "/logs", "/clusters"]  # fmt: skip


async def test_order():
    """The chain is what the architecture says, outermost first."""
    chain = ChainSettings(
        authenticator=BearerTokens(StaticTokens({}), ()),
        authorizer=AuthorizerUnion(),
        metrics=RequestMetrics(MetricsRegistry()),
        default_cluster=Name("root"),
    )
    names = [made.func.__name__ if isinstance(made, partial) else made.__name__ for made in filters(chain)]
    assert names == [
        "ErrorsFilter",
        "TelemetryFilter",
        "ClusterFilter",
        "RequestInfoFilter",
        "TimeoutFilter",
        "AuthenticationFilter",
        "ConcurrencyFilter",
        "ImpersonationFilter",
        "AuthorizationFilter",
        "WildcardFilter",
    ]


async def test_filters_of_the_program_are_the_innermost():
    """Only requests that are authenticated and authorized reach them."""
    further = (partial(ErrorsFilter), ErrorsFilter)
    chain = ChainSettings(
        authenticator=BearerTokens(StaticTokens({}), ()),
        authorizer=AuthorizerUnion(),
        metrics=RequestMetrics(MetricsRegistry()),
        further=further,
    )
    assert filters(chain)[-3:] == (WildcardFilter, *further)


async def test_compose(ask, probe):
    """The first filter is the outermost one."""
    log = []

    def named(name):
        def wrap(app):
            async def call(*arguments):
                log.append(name)
                await app(*arguments)

            return call

        return wrap

    await ask(compose((ErrorsFilter, named("outer"), named("inner")), probe))
    assert log == ["outer", "inner"]


async def test_filters_may_be_functions_and_objects(ask, probe):
    """Each kind is called with the exchange; an object by the method of its class."""
    seen = []

    class Object:
        def __init__(self, handler):
            self._handler = handler

        async def __call__(self, exchange):
            seen.append("object")
            await self._handler(exchange)

    def function(handler):
        return partial(call, handler)

    async def call(handler, exchange):
        seen.append("partial")
        await handler(exchange)

    await ask(compose((ErrorsFilter, Object, function, Object), probe))
    assert seen == ["object", "partial", "object"]


@pytest.mark.parametrize("target", PUBLIC)
async def test_public(ask, server, target):
    """Health and version are open to all callers."""
    for headers in ([], ALICE, ADMIN):
        assert (await ask(server.edge, target, headers=headers)).status == 200


@pytest.mark.parametrize("target", PUBLIC)
async def test_public_paths_are_for_reading(ask, server, target):
    """Nothing but reading is public."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "BREW"):
        assert (await ask(server.edge, target, method=method)).status == 403


@pytest.mark.parametrize("target", GUARDED)
async def test_guarded(ask, server, target):
    """Every other route, known or not, is closed to strangers and to ordinary users, and no handler hears of them."""
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        assert (await ask(server.edge, target, method=method)).status == 403
        assert (await ask(server.edge, target, method=method, headers=ALICE)).status == 403
        assert (await ask(server.edge, target, method=method, headers=[("authorization", "Bearer guess")])).status == 401
    assert not server.seen


@pytest.mark.parametrize(
    "target",
    ["/api", "/apis", "/apis/g/v1", "/openapi/v2", "/openapi/v3/apis/g/v1", "/api/v1/pods", "/clusters/a/api", "/clusters/a/apis/g/v1/x"],
)
async def test_tree(ask, server, target):
    """Resources, discovery and OpenAPI are the tree's."""
    assert (await ask(server.edge, target, headers=ADMIN)).json() == {"from": "tree"}


async def test_shell(ask, server):
    """Other paths are served by the pages, without the cluster in front, with the headers of every response."""
    for target in ("/mounted", "/clusters/team-a/mounted"):
        answer = await ask(server.edge, target, headers=[*ADMIN, ("audit-id", "mine")])
        assert (answer.status, answer.json()) == (200, {"hello": "there"})
        assert (answer.header("audit-id"), answer.header("cache-control")) == ("mine", "no-cache, private")
    assert not server.seen


async def test_unknown_path(ask, server):
    """A path that nothing serves is 404 in upstream's words."""
    for target in ("/nosuch", "/Clusters/a/api", "/%63lusters/a/api/v1/pods", "/apiX/v1/pods", "/docs", "/openapi.json", "/healthz/nosuch"):
        answer = await ask(server.edge, target, headers=ADMIN)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
        assert answer.header("content-type") == "text/plain; charset=utf-8"


async def test_errors_of_the_shell(ask, server):
    """What fails in a library user's route looks as everywhere else, and tells nothing of the inside."""
    missing = await ask(server.edge, "/mounted/missing", headers=ADMIN)
    assert (missing.status, missing.json()["message"]) == (404, 'widgets.g.io "x" not found')
    typed = await ask(server.edge, "/mounted/typed/x", headers=ADMIN)
    assert (typed.status, typed.json()["reason"]) == (400, "BadRequest")
    method = await ask(server.edge, "/mounted", method="POST", headers=ADMIN)
    assert (method.status, method.json()["reason"]) == (405, "MethodNotAllowed")
    with capture_logs() as logs:
        broken = await ask(server.edge, "/mounted/broken", headers=ADMIN)
    assert (broken.status, broken.json()["reason"]) == (500, "InternalError")
    assert b"secret" not in broken.body
    assert [log["event"] for log in logs] == ["request_failed"]


async def test_second_prefix(ask, server):
    """A second cluster prefix is an unknown path for every caller."""
    for headers in ([], ADMIN):
        assert (await ask(server.edge, "/clusters/a/clusters/b/api/v1/pods", headers=headers)).status == 404


async def test_one_cluster_from_the_path_to_the_handler(ask, server):
    """The handler gets the request that was authorized."""
    await ask(server.edge, "/clusters/team-a/api/v1/pods", headers=ADMIN)
    exchange = server.seen[-1]
    assert exchange.context.cluster == exchange.cluster == "team-a"
    assert exchange.context.user == UserInfo("admin", "1", ("system:masters", "system:authenticated"))


async def test_websockets_pass_the_filters(server):
    """A request for WebSocket is authenticated and authorized like any other, and answered over HTTP where it is for no watch."""
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/api", "raw_path": b"/api", "query_string": b"", "extensions": {"websocket.http.response": {}}}
    await server.edge({**scope, "headers": []}, receive, send)
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 403)
    assert not server.seen
    sent.clear()
    await server.edge({**scope, "headers": [(b"authorization", b"Bearer admin-token")]}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert (sent[0]["status"], sent[1]["body"]) == (200, b'{"from":"tree"}')
    assert server.seen[-1].websocket is not None
    sent.clear()
    await server.edge({**scope, "headers": [], "extensions": {}}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_lifespan(server):
    """The pages handle the lifespan."""
    assert await lifespan(server.edge) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("token", ["access_token", "token", "bearer_token", "authorization"])
async def test_no_token_in_the_url(ask, server, token):
    """A token in the URL opens nothing."""
    assert (await ask(server.edge, f"/api/v1/pods?{token}=admin-token")).status == 403


async def test_requests_leave_no_cycles(ask, server):
    """A request is freed when it ends, not when the cycle collector comes by."""
    targets = ["/clusters/a/api/v1/pods", "/api/v1/pods?timeout=5s", "/healthz"]
    for target in targets:
        await ask(server.edge, target, headers=ADMIN)
    server.seen.clear()
    gc.collect()
    gc.disable()
    try:
        # Other tests of the process may have kept some of theirs.
        others = {id(found) for found in gc.get_objects() if isinstance(found, Exchange)}
        for target in targets * 5:
            await ask(server.edge, target, headers=ADMIN)
        server.seen.clear()
        assert not [found for found in gc.get_objects() if isinstance(found, Exchange) and id(found) not in others]
    finally:
        gc.enable()


class Recorder:
    """Allows everything, and remembers what it allowed."""

    def __init__(self) -> None:
        self.clusters: list[object] = []

    async def authorize(self, user, cluster, attributes):  # noqa: ARG002
        self.clusters.append(cluster)
        return ALLOWED


_names = st.sampled_from(["a", "b", "*", "root:x", "system:admin", "A", "..", "%2a", ""])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    prefix=st.one_of(st.just(""), _names.map(lambda name: f"/clusters/{name}")),
    second=st.one_of(st.just(""), _names.map(lambda name: f"/clusters/{name}")),
    path=st.sampled_from(["/api/v1/pods", "/apis/g/v1/clusters/b", "/../clusters/b/api", "/%2e%2e/b/api", "//clusters/b/api", ""]),
    header=st.lists(_names, max_size=2),
)
def test_authorized_and_used_cluster_are_one(ask, prefix, second, path, header):
    """Whatever a request looks like, what reaches the resources is the cluster that was authorized."""
    used: list[object] = []
    recorder = Recorder()

    async def tree(exchange):
        used.append(exchange.context.cluster)
        await exchange.respond(200, b"{}")

    chain = ChainSettings(authenticator=BearerTokens(StaticTokens({}), ()), authorizer=recorder, metrics=RequestMetrics(MetricsRegistry()))
    pages = create_fixed_pages(checks=HealthChecks(), registry=MetricsRegistry())
    edge = create_asgi_app(chain, resources=tree, pages=pages)
    asyncio.run(ask(edge, prefix + second + path, headers=[("x-kubernetes-cluster", name) for name in header]))
    assert used in ([], recorder.clusters)
    assert len(used) <= 1
    if used and prefix:
        assert str(used[0]) == prefix.removeprefix("/clusters/").replace("%2a", "*")
    elif used and header:
        assert [str(used[0])] == header


async def test_other_servers_recognize_the_application() -> None:
    """uvicorn finds out by itself that it is an ASGI 3 application, as programs that embed the server rely on."""
    config = Config(Server().edge)
    config.load()
    assert config.interface == "asgi3"


@pytest.mark.parametrize("way", ["__call__", "answer_http"])
async def test_both_ways_to_answer_are_one(way: str) -> None:
    """A request is counted once and answered by the filters, whether a server calls the application or its method for HTTP."""
    counted: list[str] = []
    sent: list[Message] = []

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(200, b"{}")

    async def no_pages(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    app = ASGIApplication(answer, no_pages, on_request=partial(counted.append, "one"))
    scope = {"type": "http", "method": "GET", "headers": [], "query_string": b"", "raw_path": b"/api"}
    await getattr(app, way)(scope, receive, send)
    assert counted == ["one"]
    assert [message.get("status", message.get("body")) for message in sent] == [200, b"{}"]
