"""`AuthorizationFilter`: may this user do this, in this logical cluster."""

from __future__ import annotations

from kcp_py.apimachinery import errors
from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.forbidden import forbidden
from kcp_py.logicalcluster import WILDCARD
from kcp_py.request.sight import NO_CLUSTER
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.server.longrequests import LongRequests


class AuthorizationFilter:
    """Lets only allowed requests through. Others are 403 with upstream's text, or 500 where an authorizer failed."""

    def __init__(self, handler: Handler, *, authorizer: Authorizer, running: LongRequests | None = None) -> None:
        """Wrap `handler`.

        Args:
            handler: the next filter, or what answers requests.
            authorizer: decides.
            running: checks watches again while they run; None where there are no watches.
        """
        self._handler = handler
        self._authorizer = authorizer
        self._running = running

    async def __call__(self, exchange: Exchange) -> None:
        context = exchange.context
        running = self._running
        changes = running.changes if running is not None else 0
        decision = await self._authorizer.authorize(context.user, context.cluster, context.info)
        if decision is None or not decision.allowed:
            if decision is not None and decision.error:
                raise errors.internal(decision.error)
            raise forbidden(context.user, context.info, decision.reason if decision is not None else "")
        if context.cluster is WILDCARD:
            if decision.sight is NO_CLUSTER:
                # The authorizer has not said which clusters: none.
                raise forbidden(context.user, context.info, decision.reason)
            exchange.context = context._replace(sight=decision.sight)
        await self._handler(exchange)
        if exchange.end is not None and running is not None:
            sight = decision.sight if context.cluster is WILDCARD else None
            exchange.at_end(running.add(exchange, exchange.end, changes=changes, sight=sight).leave)
