"""`Permissions`: the answers of the server's authorizer to the questions of expressions.

Expressions are evaluated without waiting. A question without an answer ends the evaluation, which begins anew when there is one. A question
costs so much of an expression's budget that there are only a few.
"""

from __future__ import annotations

from typing import Any, Protocol

from kcp_py.apimachinery import errors
from kcp_py.cel.libraries.authz import Authorizer, Decision, Question, ResourceCheck
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import Attributes
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.selectors import RequestSelectors
from kcp_py.request.user import SERVICE_ACCOUNT_PREFIX, UserInfo, service_account_groups


class Answer(Protocol):
    """A decision of an authorizer."""

    @property
    def allowed(self) -> bool: ...

    @property
    def reason(self) -> str: ...

    @property
    def error(self) -> str: ...


class RequestAuthorizer(Protocol):
    """Decides about requests: `authz.authorizer.AuthorizerUnion`."""

    async def authorize(self, user: UserInfo, cluster: Name, info: RequestInfo) -> Answer | None: ...


class UndecidedError(Exception):
    """An expression asked a question that has no answer yet."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"undecided: {question}")
        self.question = question


class Permissions:
    """The answers for one write, each asked for once."""

    def __init__(self, authorizer: RequestAuthorizer, attributes: Attributes) -> None:
        self._authorizer = authorizer
        self._user = attributes.user
        self._cluster = attributes.request.target.cluster_state.name
        self._answers: dict[Question, Decision] = {}
        resource = attributes.resource
        self._resource = Question(
            "",
            group=resource.group,
            resource=resource.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
        )

    def values(self) -> dict[str, Any]:
        """The variables `authorizer` and `authorizer.requestResource`."""
        return {"authorizer": Authorizer(self._decide), "authorizer.requestResource": ResourceCheck(self._decide, self._resource)}

    def _decide(self, question: Question) -> Decision:
        found = self._answers.get(question)
        if found is None:
            raise UndecidedError(question)
        return found

    async def settle(self, question: Question) -> None:
        """Ask the authorizer."""
        user = self._user if question.account is None else _account(*question.account)
        try:
            answer = await self._authorizer.authorize(user, self._cluster, info_of(question))
        except errors.StatusError as error:
            self._answers[question] = Decision(allowed=False, error=str(error))
            return
        if answer is None:
            self._answers[question] = Decision(allowed=False)
        else:
            self._answers[question] = Decision(answer.allowed, answer.reason, answer.error)


def _account(namespace: str, name: str) -> UserInfo:
    return UserInfo(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", "", service_account_groups(namespace))


def info_of(question: Question) -> RequestInfo:
    """The request that a question is about."""
    if question.path:
        return UNPARSED._replace(verb=question.verb, path=question.path)
    selectors = None
    if question.field_selector or question.label_selector:
        selectors = RequestSelectors(question.field_selector, question.label_selector)
    return UNPARSED._replace(
        is_resource=True,
        verb=question.verb,
        group=question.group,
        version="*",
        resource=question.resource,
        subresource=question.subresource,
        namespace=question.namespace,
        name=question.name,
        selectors=selectors,
    )
