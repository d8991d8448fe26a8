"""The protocol of authenticators, and their union."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kcp_py.apimachinery.errors import StatusError
from kcp_py.request.user import UserInfo

Headers = Mapping[bytes, bytes]
"""Lower-case name to value."""


class Authenticator(Protocol):
    """Turns credentials into a user.

    Returns None if the request has no credential of a supported type.

    Raises:
        StatusError: 401, for an invalid credential of a supported type.
    """

    async def authenticate(self, headers: Headers, peer_certificate_der: bytes | None) -> UserInfo | None: ...


class AuthenticatorUnion:
    """Returns the user of the first authenticator that has one. An invalid credential is an error only if no other one is valid."""

    def __init__(self, *authenticators: Authenticator) -> None:
        self._authenticators = authenticators

    async def authenticate(self, headers: Headers, peer_certificate_der: bytes | None) -> UserInfo | None:
        failure: StatusError | None = None
        for authenticator in self._authenticators:
            try:
                user = await authenticator.authenticate(headers, peer_certificate_der)
            except StatusError as error:
                failure = error
                continue
            if user is not None:
                return user
        if failure is not None:
            raise failure
        return None
