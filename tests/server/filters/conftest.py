"""Users for the filters that need one."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import unauthorized
from kcp_py.authn import UserInfo
from kcp_py.authn.authenticator import Credentials
from kcp_py.authn.tokens import bearer_token

USERS = {
    b"admin": UserInfo("admin", "1", ("system:masters", "system:authenticated")),
    b"alice": UserInfo("alice", "2", ("team", "system:authenticated")),
}


class Tokens:
    """Knows `admin` and `alice` by tokens that are their names."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        token = bearer_token(credentials.headers)
        if token is None:
            return None
        if token not in USERS:
            raise unauthorized()
        return USERS[token]


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()
