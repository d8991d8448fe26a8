"""`WildcardFilter`: in the `*` logical cluster resources can be read, nothing else.

kcp's `WithWildcardListWatchGuard` lets lists and watches through; here single objects can be read, too, but no subresources of them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kcp_py.apimachinery.errors import method_not_supported
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import WILDCARD
from kcp_py.server.exchange import Exchange, Handler

_VERBS: Final = frozenset(("get", "list", "watch"))


class WildcardFilter:
    """Answers 405 to other verbs. It stands after authorization, so that only privileged callers see it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        if exchange.cluster is WILDCARD:
            info = exchange.info
            if info.is_resource and (info.verb not in _VERBS or info.subresource):
                raise method_not_supported(GroupResource(info.group, info.resource), info.verb, " in the `*` logical cluster")
        return self._handler(exchange)
