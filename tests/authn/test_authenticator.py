from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError, unauthorized
from kcp_py.authn import UserInfo
from kcp_py.authn.authenticator import AuthenticatorUnion, Credentials
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
