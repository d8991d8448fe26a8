"""`AuthorizationFilter`: may this user do this, in this logical cluster."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.forbidden import forbidden
from kcp_py.server.exchange import exchange_of


class AuthorizationFilter:
    """Lets only allowed requests through; everything else is 403 with upstream's text."""

    def __init__(self, app: ASGIApp, *, authorizer: Authorizer) -> None:
        self._app = app
        self._authorizer = authorizer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = exchange_of(scope).context
        decision = await self._authorizer.authorize(context.user, context.cluster, context.info)
        if decision is None or not decision.allowed:
            raise forbidden(context.user, context.info, decision.reason if decision is not None else "")
        await self._app(scope, receive, send)
