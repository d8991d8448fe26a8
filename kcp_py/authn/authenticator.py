"""The protocol of authenticators, and their union."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

from kcp_py.apimachinery.errors import StatusError, unauthorized
from kcp_py.logicalcluster import ROOT, ClusterSelection
from kcp_py.request.user import UserInfo

Headers = Mapping[bytes, bytes]
"""Lower-case name to value."""


class Credentials(NamedTuple):
    """What a request shows of its caller, and where it goes: a credential may be valid in one logical cluster alone."""

    headers: Headers
    peer_certificate_der: bytes | None
    """The client certificate, which TLS has verified. It may be valid in one cluster alone, see `apis.certificates.binding`. Empty bytes
    stand for one whose authority is not accepted for users, or not any more."""
    cluster: ClusterSelection
    path: str
    """Decoded, without the prefix of the cluster."""
    proxy_certificate_der: bytes | None = None
    """The client certificate, if its authority is one of front proxies."""
    repeated: Sequence[tuple[bytes, bytes]] = ()
    """All headers in their order, if one is repeated and a front proxy has sent them. Otherwise `headers` has all."""

    def values_of(self, header: bytes) -> Sequence[bytes]:
        """Every value of a header of a front proxy."""
        if self.repeated:
            return [value for name, value in self.repeated if name == header]
        value = self.headers.get(header)
        return () if value is None else (value,)


NO_CREDENTIALS: Final = Credentials(MappingProxyType({}), None, ROOT, "")
"""Those of a request before its caller is known, and after they are needed."""


class UnverifiedCredentialError(StatusError):
    """401 for a credential that may be valid: what could vouch for it does not answer. Requests that are under way with it go on."""

    def __init__(self) -> None:
        refused = unauthorized()
        super().__init__(refused.code, refused.reason, refused.message)


class Authenticator(Protocol):
    """Turns credentials into a user.

    Returns None if the request has no credential of a supported type.

    Raises:
        StatusError: 401, for an invalid credential of a supported type.
    """

    async def authenticate(self, credentials: Credentials) -> UserInfo | None: ...


class Undecided(Enum):
    """The type of `UNDECIDED`."""

    UNDECIDED = "undecided"


UNDECIDED: Final = Undecided.UNDECIDED
"""The answer of `recall` for credentials that `authenticate` has to look at."""

Recalled = UserInfo | Literal[Undecided.UNDECIDED] | None


class RecallingAuthenticator(ABC):
    """An authenticator that has the answer for most requests at hand, which costs them no coroutine."""

    @abstractmethod
    def recall(self, credentials: Credentials) -> Recalled:
        """The answer of `authenticate`, without waiting; `UNDECIDED` if that has to wait, or would raise an error."""

    @abstractmethod
    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """See `Authenticator`."""


class AuthenticatorUnion(RecallingAuthenticator):
    """Returns the user of the first authenticator that has one. An invalid credential is an error only if no other one is valid."""

    def __init__(self, *authenticators: Authenticator) -> None:
        self._authenticators = authenticators
        self._recalls = tuple(map(recall_of, authenticators))

    def recall(self, credentials: Credentials) -> Recalled:
        for recall in self._recalls:
            found = recall(credentials)
            if found is not None:
                return found
        return None

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        failure: StatusError | None = None
        for authenticator in self._authenticators:
            try:
                user = await authenticator.authenticate(credentials)
            except StatusError as error:
                failure = error
                continue
            if user is not None:
                return user
        if failure is not None:
            raise failure
        return None


def recall_of(authenticator: Authenticator) -> Callable[[Credentials], Recalled]:
    """`recall` of an authenticator. One that has none is asked each time."""
    return authenticator.recall if isinstance(authenticator, RecallingAuthenticator) else _undecided


def _undecided(_credentials: Credentials) -> Recalled:
    return UNDECIDED
