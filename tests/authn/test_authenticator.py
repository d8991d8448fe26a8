from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError, unauthorized
from kcp_py.authn import UserInfo
from kcp_py.authn.authenticator import UNDECIDED, AuthenticatorUnion, Credentials, RecallingAuthenticator
from kcp_py.logicalcluster import ROOT

pytestmark = pytest.mark.anyio


class Fixed:
    def __init__(self, outcome: UserInfo | StatusError | None) -> None:
        self.outcome = outcome

    async def authenticate(self, credentials):  # noqa: ARG002
        if isinstance(self.outcome, StatusError):
            raise self.outcome
        return self.outcome


NO_CREDENTIALS = Credentials({}, None, ROOT, "/")
ALICE, BOB = UserInfo("alice"), UserInfo("bob")


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([None, None], None, id="no credentials"),
        pytest.param([None, ALICE, BOB], ALICE, id="first user counts"),
        pytest.param([unauthorized(), ALICE], ALICE, id="a good credential after a bad one"),
    ],
)
async def test_union(outcomes, expected):
    """The first authenticator that knows the user decides."""
    assert await AuthenticatorUnion(*map(Fixed, outcomes)).authenticate(NO_CREDENTIALS) is expected


async def test_bad_credentials():
    """A bad credential without a good one is refused, not taken for none."""
    with pytest.raises(StatusError) as caught:
        await AuthenticatorUnion(Fixed(None), Fixed(unauthorized()), Fixed(None)).authenticate(NO_CREDENTIALS)
    assert caught.value.code == 401


class Recalling(RecallingAuthenticator):
    def __init__(self, outcome):
        self.outcome = outcome

    def recall(self, credentials):  # noqa: ARG002
        return self.outcome

    async def authenticate(self, credentials):  # noqa: ARG002
        raise AssertionError


@pytest.mark.parametrize(
    ("authenticators", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([Recalling(None), Recalling(ALICE)], ALICE, id="known"),
        pytest.param([Recalling(None), Recalling(None)], None, id="no credentials"),
        pytest.param([Recalling(UNDECIDED), Recalling(ALICE)], UNDECIDED, id="an earlier one has to be waited for"),
        pytest.param([Recalling(BOB), Fixed(ALICE)], BOB, id="a later one has no say"),
        pytest.param([Fixed(None), Recalling(ALICE)], UNDECIDED, id="one that recalls nothing is asked"),
    ],
)
def test_recall(authenticators, expected):
    """The order is that of the authenticators: one that has to be waited for leaves nothing to recall."""
    assert AuthenticatorUnion(*authenticators).recall(NO_CREDENTIALS) is expected
