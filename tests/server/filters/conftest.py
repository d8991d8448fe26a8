"""Users for the filters that need one."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import unauthorized
from kcp_py.authn import UserInfo
from kcp_py.authn.tokenfile import bearer_token

USERS = {
    b"admin": UserInfo("admin", "1", ("system:masters", "system:authenticated")),
    b"alice": UserInfo("alice", "2", ("team", "system:authenticated")),
}


class Tokens:
    """Knows `admin` and `alice` by tokens that are their names."""

    async def authenticate(self, headers: Any, peer_certificate_der: bytes | None) -> UserInfo | None:  # noqa: ARG002
        token = bearer_token(headers)
        if token is None:
            return None
        if token not in USERS:
            raise unauthorized()
        return USERS[token]


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()
