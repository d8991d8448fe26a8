"""`RequestInfoFilter`: turns method, path and query into a `RequestInfo`."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import ASGIApp, Receive, Scope, Send

from kcp_py.request.requestinfo import parse_request
from kcp_py.server.exchange import exchange_of


class RequestInfoFilter:
    """Sets `info` of the exchange. The query is decoded here, so that a malformed one is refused before anyone acts on it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        exchange = exchange_of(scope)
        exchange.info = parse_request(exchange.method, exchange.path, exchange.query)
        return self._app(scope, receive, send)
