"""What an authorizer is, and the union of several."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo


class Decision(NamedTuple):
    """The answer of an authorizer that has an opinion."""

    allowed: bool
    reason: str = ""
    """Appended to the message of a denial; must not tell more than the caller may know."""


ALLOWED: Final = Decision(allowed=True)
DENIED: Final = Decision(allowed=False)


class Authorizer(Protocol):
    """Decides, or returns None where it has no opinion."""

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None: ...


class Union:
    """Asks one authorizer after the other; the first opinion counts, and none at all denies."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision:
        for authorizer in self._authorizers:
            decision = await authorizer.authorize(user, cluster, info)
            if decision is not None:
                return decision
        return DENIED
