"""Bearer tokens: who issued one decides whose it is (k8s.io/apiserver `authentication/request/bearertoken` and `token/union`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

from kcp_py.apimachinery.errors import StatusError, unauthorized
from kcp_py.authn.authenticator import (
    UNDECIDED,
    Authenticator,
    Credentials,
    Headers,
    Recalled,
    RecallingAuthenticator,
    UnverifiedCredentialError,
)
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.user import UserInfo

MAX_TOKEN_BYTES: Final = 16 * 1024

Audiences = tuple[str, ...]
"""Who a token is for, as URLs or names."""


class AuthenticatedToken(NamedTuple):
    """The user of a valid token."""

    user: UserInfo
    audiences: Audiences
    """Those of the audiences in question that the token is for; never empty."""


class TokenRefusedError(Exception):
    """A token is not valid, for reasons that are known.

    Requests with the token are answered with 401 and no more. The reasons are for callers who may review tokens in the cluster in
    question, so they must not be about another cluster.

    Attributes:
        reasons: one line each.
    """

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


class TokenUnverifiedError(TokenRefusedError):
    """What could vouch for the token does not answer. The token may be valid."""


class TokenAuthenticator(Protocol):
    """Verifies the tokens of one kind of issuer.

    Returns None for every token that it cannot vouch for: of another issuer, for other audiences, malformed, expired or revoked.

    Args:
        token: without the word `Bearer`.
        cluster: where the request goes. A token that is valid in one logical cluster is not valid in another.
        audiences: the token must be for one of them. Tokens without audiences are for all of them.

    Raises:
        TokenRefusedError: instead of None, where the reason is known.
    """

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None: ...


class ImmediateTokens(ABC):
    """A `TokenAuthenticator` that knows tokens without waiting."""

    @abstractmethod
    def known(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """The answer of `authenticate_token` for a token that is known; None for others."""

    def knows_for(self, audiences: Audiences) -> Known:
        """`known`, for questions with these audiences alone: what it would ask itself, where that does not depend on the token."""
        del audiences
        return self.known


Known = Callable[[bytes, ClusterSelection, Audiences], AuthenticatedToken | None]


def known_of(tokens: object, audiences: Audiences) -> Known:
    """`known` of a token authenticator, for questions with these audiences. One that has none knows no token at once."""
    return tokens.knows_for(audiences) if isinstance(tokens, ImmediateTokens) else _unknown


def _unknown(_token: bytes, _cluster: ClusterSelection, _audiences: Audiences) -> AuthenticatedToken | None:
    return None


class TokenUnion(ImmediateTokens):
    """The answer of the first of several token authenticators that has one (k8s.io/apiserver `token/union`)."""

    def __init__(self, *authenticators: TokenAuthenticator) -> None:
        self._authenticators = authenticators

    def known(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        return self.knows_for(audiences)(token, cluster, audiences)

    def knows_for(self, audiences: Audiences) -> Known:
        # Others have no say about a token that the first one knows.
        return known_of(self._authenticators[0] if self._authenticators else None, audiences)

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        refusals: list[TokenRefusedError] = []
        for authenticator in self._authenticators:
            try:
                authenticated = await authenticator.authenticate_token(token, cluster, audiences)
            except TokenRefusedError as error:
                refusals.append(error)
                continue
            if authenticated is not None:
                return authenticated
        if not refusals:
            return None
        reasons = [reason for refusal in refusals for reason in refusal.reasons]
        if any(isinstance(refusal, TokenUnverifiedError) for refusal in refusals):
            raise TokenUnverifiedError(*reasons)
        raise TokenRefusedError(*reasons)


async def _no_token() -> None:
    """The answer about a token that is for no audience of this server."""


class AudienceAgnosticTokens(ImmediateTokens):
    """Tokens that name no audience. They are for this server alone (k8s.io/apiserver `WrapAudienceAgnosticToken`)."""

    def __init__(self, tokens: TokenAuthenticator, audiences: Audiences) -> None:
        """Create an authenticator.

        Args:
            tokens: verifies the tokens.
            audiences: of this server.
        """
        self._tokens = tokens
        self._audiences = audiences

    def known(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        return self.knows_for(audiences)(token, cluster, audiences)

    def knows_for(self, audiences: Audiences) -> Known:
        # Requests come with the audiences of the server.
        return known_of(self._tokens, audiences) if audiences == self._audiences and audiences else _unknown

    def authenticate_token(
        self, token: bytes, cluster: ClusterSelection, audiences: Audiences
    ) -> Coroutine[Any, Any, AuthenticatedToken | None]:
        mine = self._audiences
        shared = audiences if audiences == mine else tuple(audience for audience in audiences if audience in mine)
        # The coroutine itself, without another one around it: every request comes here.
        return self._tokens.authenticate_token(token, cluster, shared) if shared else _no_token()


class HeaderTokens:
    """Tokens that authenticators of requests know: each is shown to them as the token of a request for `/`."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        headers = {b"authorization": b"Bearer " + token}
        try:
            user = await self._authenticator.authenticate(Credentials(headers, None, cluster, "/"))
        except StatusError:
            return None
        return None if user is None else AuthenticatedToken(user, audiences)


class BearerTokens(RecallingAuthenticator):
    """The authenticator of requests with a bearer token."""

    def __init__(self, tokens: TokenAuthenticator, audiences: Audiences) -> None:
        """Create an authenticator.

        Args:
            tokens: verifies the tokens.
            audiences: of this server.
        """
        self._tokens = tokens
        self._known = known_of(tokens, audiences)
        self._audiences = audiences

    def recall(self, credentials: Credentials) -> Recalled:
        try:
            token = bearer_token(credentials.headers)
        except StatusError:
            return UNDECIDED
        if token is None:
            return None
        found = self._known(token, credentials.cluster, self._audiences)
        return UNDECIDED if found is None else found.user

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        token = bearer_token(credentials.headers)
        if token is None:
            return None
        try:
            authenticated = await self._tokens.authenticate_token(token, credentials.cluster, self._audiences)
        except TokenUnverifiedError:
            raise UnverifiedCredentialError from None
        except TokenRefusedError:
            raise unauthorized() from None
        if authenticated is None:
            raise unauthorized()
        return authenticated.user


def bearer_token(headers: Headers) -> bytes | None:
    """The bearer token of the Authorization header, or None without the header or with another scheme.

    Raises:
        StatusError: 401, for a token longer than any issuer creates.
    """
    value = headers.get(b"authorization")
    if not value:
        return None
    scheme, _, rest = value.strip().partition(b" ")
    if scheme != b"Bearer" and scheme.lower() != b"bearer":
        return None
    token = rest.split(b" ", 1)[0] if b" " in rest else rest
    if len(token) > MAX_TOKEN_BYTES:
        raise unauthorized()
    return token or None
