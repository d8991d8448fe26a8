"""`Users`: the users of a test server and their bearer tokens, in memory."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from kcp_py.authn.authenticator import Credentials
from kcp_py.request.user import SYSTEM_MASTERS, UserInfo, authenticated

ADMIN: Final = "kcp-admin"
_BEARER: Final = b"bearer "


class Users:
    """An `Authenticator` of users who come and go with a test."""

    def __init__(self) -> None:
        self._users: dict[str, UserInfo] = {}
        self.admin_token = self.add(ADMIN, (SYSTEM_MASTERS,))

    def add(self, name: str, groups: Sequence[str] = ()) -> str:
        """A new user, or a further token of one.

        Returns:
            The bearer token.
        """
        token = secrets.token_urlsafe(24)
        self._users[token] = authenticated(UserInfo(name, "", tuple(groups)))
        return token

    def of(self, authorization: bytes) -> UserInfo | None:
        """The user of the header `Authorization`; None for one that is not of this table."""
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return None
        # The tokens are random and end with the test: the time of a lookup tells nothing that helps.
        return self._users.get(authorization[len(_BEARER) :].strip().decode("latin-1"))

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """`Authenticator.authenticate`."""
        return self.of(credentials.headers.get(b"authorization", b""))
