"""`RequestInfoFilter`: turns method, path and query into a `RequestInfo`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final

from kcp_py.request.requestinfo import parse_request
from kcp_py.server.exchange import Exchange, Handler

_NO_QUERY: Final[Mapping[str, Sequence[str]]] = {}


class RequestInfoFilter:
    """Sets `info` of the exchange. The query is decoded here, so that a malformed one is refused before any handler runs."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        query = exchange.parameters.values if exchange.scope["query_string"] else _NO_QUERY
        exchange.info = parse_request(exchange.method, exchange.path, query)
        return self._handler(exchange)
