"""`WildcardFilter`: in the `*` logical cluster resources can be listed and watched, nothing else (kcp's `WithWildcardListWatchGuard`)."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import ASGIApp, Receive, Scope, Send

from kcp_py.apimachinery.errors import method_not_supported
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import WILDCARD
from kcp_py.server.exchange import exchange_of


class WildcardFilter:
    """Answers 405 to other verbs. It stands after authorization, so that others than the privileged do not learn of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        context = exchange_of(scope).context
        if context.cluster is WILDCARD and context.info.is_resource and context.info.verb not in {"list", "watch"}:
            info = context.info
            raise method_not_supported(GroupResource(info.group, info.resource), info.verb, " in the `*` logical cluster")
        return self._app(scope, receive, send)
