"""The protocol of authorizers, and their union."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo


class Decision(NamedTuple):
    """The answer of an authorizer that has an opinion."""

    allowed: bool
    reason: str = ""
    """Appended to the message of a denial. It must not contain information that the caller may not read."""


ALLOWED: Final = Decision(allowed=True)
DENIED: Final = Decision(allowed=False)


class Authorizer(Protocol):
    """Decides about a request, or returns None to leave the decision to other authorizers."""

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None: ...


class AuthorizerUnion:
    """Asks authorizers in order and returns the first decision. Without a decision the request is denied."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision:
        for authorizer in self._authorizers:
            decision = await authorizer.authorize(user, cluster, info)
            if decision is not None:
                return decision
        return DENIED
