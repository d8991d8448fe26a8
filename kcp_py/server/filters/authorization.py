"""`AuthorizationFilter`: may this user do this, in this logical cluster."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.authz.authorizer import Authorizer, Decision, RecallingAuthorizer
from kcp_py.authz.forbidden import forbidden
from kcp_py.logicalcluster import WILDCARD, ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.sight import NO_CLUSTER
from kcp_py.request.user import UserInfo
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.server.longrequests import LongRequests

_CREATED: Final = frozenset(("attach", "exec", "portforward"))
"""Subresources of pods whose connections need the permission to create them, whatever the method."""

_SHORT: Final = frozenset(("get", "list", "create", "update", "patch", "delete", "deletecollection"))
"""Verbs of requests that end with their answer. Without a subresource none of them is checked again while it runs."""


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
        self._recall = authorizer.recall if isinstance(authorizer, RecallingAuthorizer) else _recall_nothing
        self._running = running

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        info = exchange.info
        cluster = exchange.cluster
        if info.is_resource and info.verb in _SHORT and not info.subresource and cluster is not WILDCARD:
            decision = self._recall(exchange.user, cluster, info)
            if decision is not None and decision.allowed:
                return self._handler(exchange)
        return self._authorized(exchange)

    async def _authorized(self, exchange: Exchange) -> None:
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
        info = context.info
        if info.subresource in _CREATED and (info.group, info.resource) == ("", "pods") and info.verb != "create":
            await self._check_create(exchange)
        await self._handler(exchange)
        if exchange.end is not None and running is not None:
            sight = decision.sight if context.cluster is WILDCARD else None
            exchange.at_end(running.add(exchange, exchange.end, changes=changes, sight=sight).leave)

    async def _check_create(self, exchange: Exchange) -> None:
        """Refuse callers who may only read: WebSockets begin with a GET (`ensureAuthorizedForVerb` of pkg/registry/core/pod/rest)."""
        context = exchange.context
        decision = await self._authorizer.authorize(context.user, context.cluster, context.info._replace(verb="create"))
        if decision is None or not decision.allowed:
            if decision is not None and decision.error:
                raise errors.internal(decision.error)
            pods = GroupResource(context.info.group, context.info.resource)
            raise errors.forbidden(pods, context.info.name, decision.reason if decision is not None else "")


def _recall_nothing(_user: UserInfo, _cluster: ClusterSelection, _info: RequestInfo) -> Decision | None:
    return None
