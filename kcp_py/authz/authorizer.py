"""The protocol of authorizers, and their union."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.sight import EVERY_CLUSTER, NO_CLUSTER, Sight
from kcp_py.request.user import UserInfo


class Decision(NamedTuple):
    """The answer of an authorizer."""

    allowed: bool
    reason: str = ""
    """Appended to the message of a denial. It must not contain information that the caller may not read."""
    final: bool = True
    """Whether other authorizers are not asked any more. An answer that is not final gives a reason or an error alone."""
    error: str = ""
    """Why the authorizer could not decide. The request is answered with 500 unless another authorizer allows it. Clients see the text."""
    sight: Sight = NO_CLUSTER
    """What an allowed request over all clusters may read. Without it such a request is denied."""


ALLOWED: Final = Decision(allowed=True, sight=EVERY_CLUSTER)
"""Allowed, over all clusters without restriction."""
DENIED: Final = Decision(allowed=False)
NO_OPINION: Final = Decision(allowed=False, final=False)
"""The answer where no authorizer has an opinion. The request is denied."""


class Authorizer(Protocol):
    """Decides about a request, or returns None to leave the decision to other authorizers.

    Decisions about running watches are made again every 40 to 50 seconds. The attribute `announces_changes` of a class says that this is
    not necessary: its decisions never change, or each change is announced (`server.longrequests`).
    """

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None: ...


class ImmediateAuthorizer(ABC):
    """An authorizer that waits for nothing. A union calls `decide` itself, which costs a request no coroutine."""

    @abstractmethod
    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """The answer of `authorize`."""

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        return self.decide(user, cluster, info)


class RecallingAuthorizer(ABC):
    """An authorizer that keeps decisions. A union asks for them before it waits for a decision, which costs a request no coroutine."""

    @abstractmethod
    def recall(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """The answer of `authorize`, if it is a permission that is at hand; else None."""

    @abstractmethod
    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """See `Authorizer`."""


class ConfiguredAuthorizer(NamedTuple):
    """An authorizer of the operator's configuration."""

    authorizer: Authorizer
    type: str = ""
    """Such as `RBAC`."""
    name: str = ""
    """Distinct within the configuration. It precedes the reasons of decisions that are not final."""


class AuthorizerUnion(RecallingAuthorizer):
    """Asks authorizers in order and returns the first final decision. Without one the request is denied.

    Configured authorizers are the last ones, and can be replaced while the server runs: a decision asks either all old or all new ones.
    """

    def __init__(self, *authorizers: Authorizer) -> None:
        self._first = tuple(ConfiguredAuthorizer(authorizer) for authorizer in authorizers)
        self.configured: Sequence[ConfiguredAuthorizer] = ()
        """The configured authorizers in order."""
        self.decisions: dict[tuple[str, str], list[int]] = {}
        """The numbers of final decisions of configured authorizers, by type and name: of refusals, and of permissions."""
        self._asked: tuple[_Asked, ...] = ()
        self.configure(())

    @property
    def announces_changes(self) -> bool:
        """Whether all authorizers announce changes of their decisions."""
        return all(getattr(member.authorizer, "announces_changes", False) for member in (*self._first, *self.configured))

    def configure(self, authorizers: Sequence[ConfiguredAuthorizer]) -> None:
        """Replace the configured authorizers, for all decisions that begin from now on."""
        self.configured = tuple(authorizers)
        self._asked = tuple(
            (
                *_steps_of(member.authorizer),
                self.decisions.setdefault(member[1:], [0, 0]) if member.type else None,
                member.name,
            )
            for member in (*self._first, *authorizers)
        )

    def recall(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """A permission that no authorizer has to be waited for, counted as a decision; else None, and `authorize` has the answer."""
        for at_once, authorize, decisions, _ in self._asked:
            decision = at_once(user, cluster, info) if at_once is not None else None
            if decision is None:
                if authorize is None:
                    continue
                return None
            if not decision.final or not decision.allowed:
                return None
            if decisions is not None:
                decisions[True] += 1
            return decision
        return None

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision:
        undecided: list[tuple[str, Decision]] | None = None
        for at_once, authorize, decisions, name in self._asked:
            decision = at_once(user, cluster, info) if at_once is not None else None
            if decision is None and authorize is not None:
                decision = await authorize(user, cluster, info)
            if decision is None:
                continue
            if decision.final:
                if decisions is not None:
                    decisions[decision.allowed] += 1
                return decision
            if undecided is None:
                undecided = []
            undecided.append((name, decision))
        return NO_OPINION if undecided is None else _joined(undecided)


_Decide = Callable[[UserInfo, ClusterSelection, RequestInfo], Decision | None]
_Wait = Callable[[UserInfo, ClusterSelection, RequestInfo], Awaitable[Decision | None]]
_Asked = tuple[_Decide | None, _Wait | None, list[int] | None, str]
"""What decides at once, what decides where that does not, the counts of its decisions, its name."""


def _steps_of(authorizer: Authorizer) -> tuple[_Decide | None, _Wait | None]:
    """What decides at once, and what decides by waiting. An `ImmediateAuthorizer` with an `authorize` of its own is asked by that."""
    if isinstance(authorizer, ImmediateAuthorizer) and getattr(authorizer.authorize, "__func__", None) is ImmediateAuthorizer.authorize:
        return authorizer.decide, None
    if isinstance(authorizer, RecallingAuthorizer):
        return authorizer.recall, authorizer.authorize
    return None, authorizer.authorize


def _joined(undecided: Sequence[tuple[str, Decision]]) -> Decision:
    """The reasons and the errors of decisions that are not final."""
    reasons = [f"{name}: {decision.reason}" if name else decision.reason for name, decision in undecided if decision.reason]
    problems = [decision.error for _, decision in undecided if decision.error]
    return NO_OPINION._replace(reason="\n".join(reasons), error=aggregate(problems))


def aggregate(errors: Sequence[str]) -> str:
    """Errors as Go prints several of them (apimachinery `util/errors.Aggregate`)."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
