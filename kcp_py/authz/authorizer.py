"""What an authorizer is, and the union of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from kcp_py.logicalcluster import ClusterSelection


class User(Protocol):
    """What authorization needs to know of a caller; `authn.UserInfo` is one."""

    @property
    def name(self) -> str: ...
    @property
    def groups(self) -> Sequence[str]: ...


class Attributes(Protocol):
    """What authorization needs to know of a request; `server.RequestInfo` is one."""

    @property
    def is_resource(self) -> bool: ...
    @property
    def verb(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


class Decision(NamedTuple):
    """The answer of an authorizer that has an opinion."""

    allowed: bool
    reason: str = ""
    """Appended to the message of a denial; must not tell more than the caller may know."""


ALLOWED: Final = Decision(allowed=True)
DENIED: Final = Decision(allowed=False)


class Authorizer(Protocol):
    """Decides, or returns None where it has no opinion."""

    async def authorize(self, user: User, cluster: ClusterSelection, attributes: Attributes) -> Decision | None: ...


class Union:
    """Asks one authorizer after the other; the first opinion counts, and none at all denies."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    async def authorize(self, user: User, cluster: ClusterSelection, attributes: Attributes) -> Decision:
        for authorizer in self._authorizers:
            decision = await authorizer.authorize(user, cluster, attributes)
            if decision is not None:
                return decision
        return DENIED
