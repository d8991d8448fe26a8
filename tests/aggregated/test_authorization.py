"""Decisions that are left to the delegate, and for which questions one is kept."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.aggregated.authorization import DelegatedAuthorizer
from kcp_py.aggregated.settings import Delegation
from kcp_py.egress.endpoint import CallError
from kcp_py.egress.operatorwebhook import WebhookAnswer
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo

pytestmark = pytest.mark.anyio

BOB = UserInfo("bob", "u1", ("dev",), {"scopes": ("read",)})
LIST = RequestInfo(True, "list", "apis", "a.dev", "v1", "default", "foos", "", "", "/apis/a.dev/v1/namespaces/default/foos", ("foos",))


class Delegate:
    """Answers reviews; keeps the questions."""

    def __init__(self) -> None:
        self.questions: list[dict[str, object]] = []
        self.is_down = False
        self.allowed = True

    async def post(self, body: bytes) -> WebhookAnswer:
        if self.is_down:
            raise CallError("connection refused")
        self.questions.append(orjson.loads(body)["spec"])
        document = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {"allowed": self.allowed}}
        return WebhookAnswer(201, orjson.dumps(document), retry_after=False)

    async def aclose(self) -> None:
        pass


def authorizer(delegate: Delegate) -> DelegatedAuthorizer:
    judge = DelegatedAuthorizer(delegate, Delegation(kubeconfig="x", allowed_cache_seconds=3600))
    judge._asked._sleep = _no_pause
    return judge


async def _no_pause(_: float) -> None:
    """Failed questions are repeated at once."""


async def allows(judge: DelegatedAuthorizer, user: UserInfo = BOB, info: RequestInfo = LIST) -> bool:
    decision = await judge.authorize(user, ROOT, info)
    assert decision is not None
    assert decision.final or not decision.allowed
    return decision.allowed


async def test_each_question_is_asked_for_itself() -> None:
    """A kept answer counts for the same user with the same groups, uid and extra fields, and for the very same request."""
    delegate = Delegate()
    judge = authorizer(delegate)
    names = ("verb", "group", "version", "namespace", "resource", "subresource", "name")
    parts: list[dict[str, Any]] = [{name: "other"} for name in names]
    others = [
        (BOB._replace(name="carol"), LIST),
        (BOB._replace(uid="u2"), LIST),
        (BOB._replace(groups=("dev", "ops")), LIST),
        (BOB._replace(groups=()), LIST),
        (BOB._replace(extra={"scopes": ("write",)}), LIST),
        (BOB._replace(extra={}), LIST),
        *((BOB, LIST._replace(**part)) for part in parts),
        (BOB, LIST._replace(is_resource=False)),
        (BOB, LIST._replace(is_resource=False, path="/metrics")),
    ]
    for user, info in [(BOB, LIST), *others] * 3:
        assert await allows(judge, user, info)
    assert len(delegate.questions) == len(others) + 1
    assert len({orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in delegate.questions}) == len(others) + 1


async def test_a_delegate_that_is_down() -> None:
    """Kept permissions go on, nothing else does, and a failure is not kept. Privileged users and public paths need no answer."""
    delegate = Delegate()
    judge = authorizer(delegate)
    assert await allows(judge)
    delegate.is_down = True
    assert await allows(judge)
    delete = LIST._replace(verb="delete")
    assert not await allows(judge, info=delete)
    assert await allows(judge, UserInfo("admin", "", ("system:masters",), {}), delete)
    assert await allows(judge, info=LIST._replace(is_resource=False, verb="get", path="/readyz"))
    assert not await allows(judge, info=LIST._replace(is_resource=False, verb="get", path="/metrics"))
    delegate.is_down = False
    assert await allows(judge, info=delete)


async def test_other_clusters_have_no_questions() -> None:
    """The delegate would answer about its own objects."""
    delegate = Delegate()
    decision = await authorizer(delegate).authorize(UserInfo("admin", "", ("system:masters",), {}), Name("other"), LIST)
    assert decision is not None
    assert (decision.allowed, delegate.questions) == (False, [])
