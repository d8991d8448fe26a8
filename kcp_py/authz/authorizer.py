"""The protocol of authorizers, and their union."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo


class Decision(NamedTuple):
    """The answer of an authorizer."""

    allowed: bool
    reason: str = ""
    """Appended to the message of a denial. It must not contain information that the caller may not read."""
    final: bool = True
    """Whether other authorizers are not asked any more. An answer that is not final gives a reason alone."""


ALLOWED: Final = Decision(allowed=True)
DENIED: Final = Decision(allowed=False)
NO_OPINION: Final = Decision(allowed=False, final=False)
"""The answer where no authorizer has an opinion. The request is denied."""


class Authorizer(Protocol):
    """Decides about a request, or returns None to leave the decision to other authorizers.

    Decisions about running watches are made again every 30 seconds. The attribute `announces_changes` of a class says that this is not
    necessary: its decisions never change, or each change is announced (`server.longrequests`).
    """

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None: ...


class AuthorizerUnion:
    """Asks authorizers in order and returns the first final decision. Without one the request is denied."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    @property
    def announces_changes(self) -> bool:
        """Whether all authorizers announce changes of their decisions."""
        return all(getattr(authorizer, "announces_changes", False) for authorizer in self._authorizers)

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision:
        reasons: list[str] = []
        for authorizer in self._authorizers:
            decision = await authorizer.authorize(user, cluster, info)
            if decision is None:
                continue
            if decision.final:
                return decision
            reasons.append(decision.reason)
        return NO_OPINION._replace(reason="\n".join(reasons)) if reasons else NO_OPINION
