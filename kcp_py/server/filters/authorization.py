"""`AuthorizationFilter`: may this user do this, in this logical cluster."""

from __future__ import annotations

from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.forbidden import forbidden
from kcp_py.server.exchange import Exchange, Handler


class AuthorizationFilter:
    """Lets only allowed requests through; everything else is 403 with upstream's text."""

    def __init__(self, handler: Handler, *, authorizer: Authorizer) -> None:
        self._handler = handler
        self._authorizer = authorizer

    async def __call__(self, exchange: Exchange) -> None:
        context = exchange.context
        decision = await self._authorizer.authorize(context.user, context.cluster, context.info)
        if decision is None or not decision.allowed:
            raise forbidden(context.user, context.info, decision.reason if decision is not None else "")
        await self._handler(exchange)
