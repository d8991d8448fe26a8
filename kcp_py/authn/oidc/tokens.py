"""`JWTTokens`: verifies the JWTs of a set of issuers.

Source: k8s.io/apiserver `plugin/pkg/authenticator/token/oidc`, go-oidc `verify.go`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import structlog

from kcp_py.aio.lru import LRU
from kcp_py.apis.jwt.authenticators import JWTAuthenticator
from kcp_py.authn.oidc.claims import EXPRESSION_BUDGET, ClaimError, user_of
from kcp_py.authn.oidc.distributed import ClaimResolver, UnresolvedClaimsError
from kcp_py.authn.oidc.keysets import KeySet, Provider
from kcp_py.authn.oidc.signatures import ALGORITHMS, read_token
from kcp_py.authn.oidc.verification import expiry_text, valid_until, verifying_keys
from kcp_py.authn.tokens import Audiences, AuthenticatedToken, TokenRefusedError, TokenUnverifiedError
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.user import UserInfo, authenticated

_KEPT_TOKENS: Final = 4096

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class Issuer(NamedTuple):
    """An issuer: how its tokens are verified, and its keys."""

    authenticator: JWTAuthenticator
    provider: Provider
    resolver: ClaimResolver | None = None
    """Reads groups that are not in the tokens."""


class _Verified(NamedTuple):
    """A token that was verified."""

    user: UserInfo
    not_after: float
    fresh_until: float
    """When it is to be verified again, because it has distributed claims."""
    provider: Provider
    keys: KeySet


def _unchanged(user: UserInfo) -> UserInfo:
    return user


class JWTTokens:
    """A `TokenAuthenticator`. Each token is verified by the issuer that its claim `iss` names, and by no other.

    Users are kept by the hash of their tokens until these expire or the keys of the issuer change.
    """

    def __init__(
        self,
        issuers: Sequence[Issuer],
        *,
        algorithms: Collection[str] = ALGORITHMS,
        budget: int = EXPRESSION_BUDGET,
        confine: Callable[[UserInfo], UserInfo | None] = _unchanged,
        now: Callable[[], float] = time.time,
        size: int = _KEPT_TOKENS,
    ) -> None:
        """Create an authenticator.

        Args:
            issuers: the issuers, each URL once.
            algorithms: the signature algorithms that are accepted.
            budget: what all expressions for one token may cost.
            confine: changes users that an issuer vouches for, or refuses them with None.
            now: seconds since the epoch.
            size: the number of verified tokens that are kept.
        """
        self._issuers = {issuer.authenticator.issuer: issuer for issuer in issuers}
        self._algorithms = frozenset(algorithms)
        self._budget = budget
        self._confine = confine
        self._now = now
        self._verified: LRU[bytes, _Verified] = LRU(size)

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """See `TokenAuthenticator`. Tokens are valid in every cluster, and for all of `audiences`: they name those of their issuer.

        Raises:
            TokenRefusedError: the token has expired, or its issuer has not signed it. Other reasons are about the configuration: callers do
                not see them.
            TokenUnverifiedError: the issuer does not answer.
        """
        del cluster
        digest = sha256(token).digest()
        known = self._verified.get(digest)
        if known is not None and known.provider.current is known.keys:
            known.provider.refresh_if_old()
            now = self._now()
            if now > known.not_after:
                return None
            if now <= known.fresh_until:
                return AuthenticatedToken(known.user, audiences)
        verified = await self._verify(token, digest)
        if verified is None:
            return None
        self._verified.set(digest, verified)
        return AuthenticatedToken(verified.user, audiences)

    def close(self) -> None:
        """End all fetches."""
        for issuer in self._issuers.values():
            issuer.provider.close()
            if issuer.resolver is not None:
                issuer.resolver.close()

    async def _verify(self, compact: bytes, digest: bytes) -> _Verified | None:
        token = read_token(compact)
        if token is None or token.algorithm not in self._algorithms:
            return None
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            return None
        authenticator, provider, resolver = issuer
        now = self._now()
        not_after = fresh_until = valid_until(token, authenticator.audiences, now)
        if not_after is None or fresh_until is None:
            if expired := expiry_text(token, now):
                raise TokenRefusedError(f"oidc: verify token: oidc: token is expired (Token Expiry: {expired})")
            return None
        keys = await verifying_keys(token, provider)
        if keys is None:
            if provider.current is None:
                raise TokenUnverifiedError("oidc: authenticator not initialized")
            raise TokenRefusedError("oidc: verify token: failed to verify signature: failed to verify id token signature")
        claims = token.claims
        try:
            if resolver is not None and (resolved := await resolver.resolve(claims, digest)) is not None:
                claims, fresh_until = resolved
            user = self._confine(user_of(authenticator, claims, budget=self._budget))
        except UnresolvedClaimsError as error:
            _log.debug("token_refused", issuer=authenticator.issuer, error=str(error))
            raise TokenUnverifiedError("distributed claims cannot be read") from None
        except ClaimError as error:
            _log.debug("token_refused", issuer=authenticator.issuer, error=str(error))
            return None
        if user is None:
            _log.debug("token_refused", issuer=authenticator.issuer, error="the name, a group or an extra field is reserved")
            return None
        return _Verified(authenticated(user), not_after, fresh_until, provider, keys)
