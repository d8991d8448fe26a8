"""What an authenticator is, and the union of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kcp_py.apimachinery.errors import StatusError
from kcp_py.request.user import UserInfo

Headers = Mapping[bytes, bytes]
"""Lower-case name to value."""


class Authenticator(Protocol):
    """Turns credentials into a user.

    Returns None where the request carries no credential of the kind that it knows.

    Raises:
        StatusError: 401, for a credential of its kind that is not valid.
    """

    async def authenticate(self, headers: Headers, peer_certificate_der: bytes | None) -> UserInfo | None: ...


class Union:
    """Asks one authenticator after the other; the first user counts. A bad credential fails the request only if no other one is good."""

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
