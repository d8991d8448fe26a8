from __future__ import annotations

import pytest

from kcp_py.authn import UserInfo
from kcp_py.authz import ALLOWED, DENIED, NO_OPINION, AuthorizerUnion, Decision
from kcp_py.authz.authorizer import ConfiguredAuthorizer, RecallingAuthorizer
from kcp_py.authz.static import AlwaysAllow, AlwaysAllowPaths, AlwaysDeny
from kcp_py.logicalcluster import ROOT
from kcp_py.request.requestinfo import parse_request

pytestmark = pytest.mark.anyio

INFO = parse_request("GET", "/api/v1/pods", {})


class Fixed:
    def __init__(self, decision: Decision | None) -> None:
        self.decision = decision

    async def authorize(self, user, cluster, attributes):  # noqa: ARG002
        return self.decision


@pytest.mark.parametrize(
    ("opinions", "expected"),
    [
        pytest.param([], NO_OPINION, id="nobody to ask"),
        pytest.param([None, None], NO_OPINION, id="no opinion"),
        pytest.param([None, ALLOWED], ALLOWED, id="allowed"),
        pytest.param([DENIED, ALLOWED], DENIED, id="a denial is an opinion"),
        pytest.param([ALLOWED, DENIED], ALLOWED, id="the first opinion counts"),
        pytest.param([Decision(allowed=False, reason="because")], Decision(allowed=False, reason="because"), id="reason"),
        pytest.param([NO_OPINION._replace(reason="a"), ALLOWED], ALLOWED, id="a reason alone is no opinion"),
        pytest.param(
            [NO_OPINION._replace(reason="a"), None, NO_OPINION._replace(reason="b")], NO_OPINION._replace(reason="a\nb"), id="reasons"
        ),
    ],
)
async def test_union(opinions, expected):
    """The first opinion counts, and none at all denies."""
    assert await AuthorizerUnion(*map(Fixed, opinions)).authorize(UserInfo("alice"), ROOT, INFO) == expected


class Stricter(AlwaysAllow):
    async def authorize(self, user, cluster, info):
        return None if user.name == "alice" else await super().authorize(user, cluster, info)


async def test_immediate_authorizers() -> None:
    """They are asked by `decide`, and by `authorize` where a subclass has its own."""
    assert await AuthorizerUnion(AlwaysAllow()).authorize(UserInfo("alice"), ROOT, INFO) is ALLOWED
    assert await AuthorizerUnion(Stricter()).authorize(UserInfo("alice"), ROOT, INFO) is NO_OPINION
    assert await AuthorizerUnion(Stricter()).authorize(UserInfo("bob"), ROOT, INFO) is ALLOWED


async def test_configured_authorizers() -> None:
    """They come last, their reasons have their names, and what they decide is counted. They are replaced together."""
    union = AuthorizerUnion(Fixed(NO_OPINION._replace(reason="first")))
    union.configure([ConfiguredAuthorizer(Fixed(NO_OPINION._replace(reason="b", error="e")), "Webhook", "hook")])
    undecided = await union.authorize(UserInfo("alice"), ROOT, INFO)
    assert undecided == NO_OPINION._replace(reason="first\nhook: b", error="e")
    assert not union.announces_changes
    union.configure([ConfiguredAuthorizer(Fixed(ALLOWED), "RBAC", "rbac"), ConfiguredAuthorizer(Fixed(DENIED), "Webhook", "hook")])
    assert await union.authorize(UserInfo("alice"), ROOT, INFO) is ALLOWED
    assert union.decisions["RBAC", "rbac"] == [0, 1]
    union.configure([ConfiguredAuthorizer(AlwaysDeny(), "AlwaysDeny", "alwaysdeny")])
    assert len(union.configured) == 1
    refused = await union.authorize(UserInfo("alice"), ROOT, INFO)
    assert refused.reason == "first\nalwaysdeny: Everything is forbidden."


async def test_an_error_does_not_outweigh_a_decision() -> None:
    """A later authorizer can allow what an earlier one could not decide."""
    union = AuthorizerUnion(Fixed(NO_OPINION._replace(error="e")), Fixed(ALLOWED))
    assert await union.authorize(UserInfo("alice"), ROOT, INFO) is ALLOWED


class Keeping(RecallingAuthorizer):
    def __init__(self, kept: Decision | None, decided: Decision | None = None) -> None:
        self.kept, self.decided = kept, decided

    def recall(self, user, cluster, info):  # noqa: ARG002
        return self.kept

    async def authorize(self, user, cluster, info):  # noqa: ARG002
        return self.decided


@pytest.mark.parametrize(
    ("authorizers", "recalled", "decided"),
    [
        pytest.param([], None, NO_OPINION, id="nobody to ask"),
        pytest.param([AlwaysAllow()], ALLOWED, ALLOWED, id="one that never waits"),
        pytest.param([Keeping(ALLOWED)], ALLOWED, ALLOWED, id="a permission that is kept"),
        pytest.param([Keeping(None, ALLOWED)], None, ALLOWED, id="one that is not kept"),
        pytest.param([AlwaysAllowPaths(), Keeping(ALLOWED)], ALLOWED, ALLOWED, id="one without an opinion is passed"),
        pytest.param([Fixed(DENIED), AlwaysAllow()], None, DENIED, id="an earlier one has to be waited for"),
        pytest.param([Keeping(None, DENIED), AlwaysAllow()], None, DENIED, id="an earlier one keeps nothing"),
        pytest.param([AlwaysDeny(), AlwaysAllow()], None, ALLOWED, id="reasons are collected by waiting"),
    ],
)
async def test_recall(authorizers, recalled, decided):
    """A recalled permission is one that `authorize` gives, too. Each decision is counted once."""
    union = AuthorizerUnion()
    union.configure([ConfiguredAuthorizer(one, "T", "n") for one in authorizers])
    assert union.recall(UserInfo("alice"), ROOT, INFO) == recalled
    assert union.decisions.get(("T", "n"), [0, 0]) == [0, int(recalled is not None)]
    assert (await union.authorize(UserInfo("alice"), ROOT, INFO)).allowed is decided.allowed
