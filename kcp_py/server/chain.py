"""The chain: the filters, read outermost first, around the handlers of resources and the fixed pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import Any, Final, final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kcp_py.authn.anonymous import ALL_ANONYMOUS, AnonymousAccess
from kcp_py.authn.authenticator import Authenticator
from kcp_py.authn.requestheader import ProxyHeaders
from kcp_py.authz.authorizer import Authorizer
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.request.clusterhost import ClusterHosts
from kcp_py.server.bodybudget import BodyBudget
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.authorization import AuthorizationFilter
from kcp_py.server.filters.cluster import ClusterFilter, Resolve, TokenCluster, resolve_nothing
from kcp_py.server.filters.clusterlimits import ClusterLimitsFilter, ClusterStates, Shares
from kcp_py.server.filters.concurrency import ConcurrencyFilter, Fairness, InFlight
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.impersonation import ImpersonationFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter
from kcp_py.server.filters.telemetry import TelemetryFilter
from kcp_py.server.filters.timeout import TimeoutFilter
from kcp_py.server.filters.tracing import TracingFilter
from kcp_py.server.filters.wildcard import WildcardFilter
from kcp_py.server.longrequests import LongRequests
from kcp_py.server.responsehead import CACHE_CONTROL
from kcp_py.server.websocket import WebSocket
from kcp_py.telemetry.logs import AccessLog
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.tracing.tracer import Tracer

__all__ = ["ASGIApp", "ASGIApplication", "ChainSettings", "Filter", "Handler", "Mux", "compose", "create_asgi_app", "filters"]

Filter = Callable[[Handler], Handler]
"""Wraps a handler: it sees each request before the handler does, answers in its place, or lets it answer."""

_RESOURCE_ROOTS: Final = frozenset(("api", "apis", "openapi", "tap"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """What the filters need to be told."""

    authenticator: Authenticator
    authorizer: Authorizer
    metrics: RequestMetrics
    access_log: AccessLog | None = None
    anonymous: AnonymousAccess = ALL_ANONYMOUS
    default_cluster: Name | None = ROOT
    single_cluster: bool = False
    """Whether the default cluster is the only one."""
    cluster_header: str = "X-Kubernetes-Cluster"
    cluster_hosts: ClusterHosts | None = None
    token_cluster: TokenCluster | None = None
    resolve: Resolve = resolve_nothing
    request_timeout: float = 60.0
    fairness: Fairness = field(default_factory=InFlight)
    bodies: BodyBudget = field(default_factory=BodyBudget)
    proxy_headers: ProxyHeaders | None = None
    """Headers in which front proxies name users; None where no proxy is trusted."""
    running: LongRequests | None = None
    """Checks the callers of watches again while they run; None where there are no watches."""
    states: ClusterStates | None = None
    """Knows the limits of clusters; None where there are none."""
    shares: Shares = field(default_factory=Shares)
    """What clusters use of these limits."""
    tracer: Tracer | None = None
    """None where no request is traced."""
    further: Sequence[Filter] = ()
    """Filters of the program, behind those of the server."""
    on_request: Callable[[], None] | None = None
    """Called for each request."""


def filters(settings: ChainSettings) -> tuple[Filter, ...]:
    """The filters, outermost first. No route exists before authentication and authorization, and none can be added outside of them."""
    return (
        ErrorsFilter,
        partial(TelemetryFilter, metrics=settings.metrics, access_log=settings.access_log),
        partial(
            ClusterFilter,
            default_cluster=settings.default_cluster,
            single=settings.single_cluster,
            header=settings.cluster_header,
            hosts=settings.cluster_hosts,
            token_cluster=settings.token_cluster,
            resolve=settings.resolve,
        ),
        RequestInfoFilter,
        partial(TimeoutFilter, seconds=settings.request_timeout),
        partial(
            AuthenticationFilter,
            authenticator=settings.authenticator,
            anonymous=settings.anonymous,
            security_headers=(settings.cluster_header,) if settings.cluster_header else (),
            proxy_headers=settings.proxy_headers,
        ),
        *((partial(TracingFilter, tracer=settings.tracer),) if settings.tracer is not None else ()),
        partial(ConcurrencyFilter, fairness=settings.fairness),
        partial(ImpersonationFilter, authorizer=settings.authorizer),
        partial(AuthorizationFilter, authorizer=settings.authorizer, running=settings.running),
        *((partial(ClusterLimitsFilter, states=settings.states, shares=settings.shares),) if settings.states is not None else ()),
        WildcardFilter,
        *settings.further,
    )


def compose(outermost_first: Sequence[Filter], handler: Handler) -> Handler:
    """Wrap `handler` in the filters."""
    handler = _function_of(handler)
    for wrap in reversed(outermost_first):
        handler = _function_of(wrap(handler))
    return handler


def _function_of(handler: Handler) -> Handler:
    """The method that a call of an object is a call of: the interpreter looks it up for each call of the object."""
    called: Any = handler
    method = called.__call__
    return method if isinstance(method, MethodType) else handler


def create_asgi_app(settings: ChainSettings, *, resources: Handler, pages: ASGIApp) -> ASGIApp:
    """The whole ASGI application.

    Args:
        settings: of the filters.
        resources: handles requests for resources, discovery and OpenAPI.
        pages: an ASGI application for every other path, and for the lifespan.
    """
    return ASGIApplication(compose(filters(settings), Mux(resources, pages)), pages, settings.bodies, settings.on_request)


@final
class ASGIApplication:
    """The ASGI application: it makes an exchange of each HTTP or WebSocket request, and leaves the lifespan to the pages.

    It is final, because a server may call `answer_http` in the place of the application.
    """

    def __init__(
        self, chain: Handler, pages: ASGIApp, bodies: BodyBudget | None = None, on_request: Callable[[], None] | None = None
    ) -> None:
        """Put the parts together.

        Args:
            chain: the filters around the innermost handler.
            pages: handles the lifespan.
            bodies: bounds what the bodies of all requests take.
            on_request: called for each request.
        """
        self._chain = chain
        self._pages = pages
        self._bodies = bodies
        self._on_request = on_request

    # A coroutine function, because servers recognize applications by that.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            answer = self.answer_http(scope, receive, send)
            # A watch keeps this frame for as long as it runs; the exchange gives its scope back.
            del scope
            await answer
            return
        if self._on_request is not None:
            self._on_request()
        if scope["type"] == "lifespan":
            await self._pages(scope, receive, send)
        elif (await receive())["type"] == "websocket.connect":
            websocket = WebSocket(scope, receive, send)
            http_scope = websocket.scope(scope)
            await self._chain(Exchange(http_scope, websocket.receive, websocket.send, self._bodies, websocket=websocket))

    def answer_http(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """The call of the application for an HTTP request, without a coroutine of its own that each wake-up of the request goes through."""
        if self._on_request is not None:
            self._on_request()
        return self._chain(Exchange(scope, receive, send, self._bodies))


class Mux:
    """The innermost handler. Requests for resources do not pass through the web framework."""

    def __init__(self, resources: Handler, pages: ASGIApp) -> None:
        self._resources = _function_of(resources)
        self._pages = pages

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        if exchange.info.is_resource or exchange.path.strip("/").partition("/")[0] in _RESOURCE_ROOTS:
            return self._resources(exchange)
        inner = dict(exchange.scope)
        inner["path"] = exchange.path
        inner["root_path"] = ""
        # Without the prefix of the cluster: nothing may parse the path a second time.
        inner["raw_path"] = exchange.path.encode()
        inner["state"] = {**exchange.state, "exchange": exchange}
        return self._pages(inner, exchange.receive, partial(_send_page, exchange))


async def _send_page(exchange: Exchange, message: Message) -> None:
    if message["type"] == "http.response.start":
        exchange.status = message["status"]
        headers = list(message.get("headers", ()))
        headers.append((b"audit-id", exchange.audit_id.encode()))
        if not any(name == b"cache-control" for name, _ in headers):
            headers.append(CACHE_CONTROL)
        message = {**message, "headers": headers}
    elif message["type"] == "http.response.body":
        exchange.sent_bytes += len(message.get("body", b""))
        exchange.finished = not message.get("more_body", False)
    await exchange.send(message)
