"""`JWTTokens`: verifies the JWTs of a set of issuers.

Source: k8s.io/apiserver `plugin/pkg/authenticator/token/oidc`, go-oidc `verify.go`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import structlog

from kcp_py.aio.lru import LRU
from kcp_py.apis.jwt.authenticators import JWTAuthenticator
from kcp_py.authn.oidc.claims import EXPRESSION_BUDGET, ClaimError, user_of
from kcp_py.authn.oidc.keysets import KeySet, Provider
from kcp_py.authn.oidc.signatures import ALGORITHMS, Token, is_signed, read_token
from kcp_py.authn.tokens import Audiences, AuthenticatedToken
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.user import UserInfo, authenticated

_KEPT_TOKENS: Final = 4096
_SKEW_SECONDS: Final = 300.0
"""How far `nbf` may be ahead, as in go-oidc."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class Issuer(NamedTuple):
    """An issuer: how its tokens are verified, and its keys."""

    authenticator: JWTAuthenticator
    provider: Provider


class _Verified(NamedTuple):
    """A token that was verified."""

    user: UserInfo
    not_after: float
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
        """See `TokenAuthenticator`. Tokens are valid in every cluster, and for all of `audiences`: they name those of their issuer."""
        del cluster
        digest = sha256(token).digest()
        known = self._verified.get(digest)
        if known is not None and known.provider.current is known.keys:
            known.provider.refresh_if_old()
            if self._now() <= known.not_after:
                return AuthenticatedToken(known.user, audiences)
            return None
        verified = await self._verify(token)
        if verified is None:
            return None
        self._verified.set(digest, verified)
        return AuthenticatedToken(verified.user, audiences)

    def close(self) -> None:
        """End all fetches of keys."""
        for issuer in self._issuers.values():
            issuer.provider.close()

    async def _verify(self, compact: bytes) -> _Verified | None:
        token = read_token(compact)
        if token is None or token.algorithm not in self._algorithms:
            return None
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            return None
        authenticator, provider = issuer
        not_after = _end(token, authenticator, self._now())
        if not_after is None:
            return None
        keys = await provider.keys()
        if keys is not None and not is_signed(token, keys.keys):
            # The provider may have new keys.
            keys = await provider.newer_than(keys)
            if keys is not None and not is_signed(token, keys.keys):
                keys = None
        if keys is None:
            return None
        try:
            user = self._confine(user_of(authenticator, token.claims, budget=self._budget))
        except ClaimError as error:
            _log.debug("token_refused", issuer=authenticator.issuer, error=str(error))
            return None
        if user is None:
            _log.debug("token_refused", issuer=authenticator.issuer, error="the name, a group or an extra field is reserved")
            return None
        return _Verified(authenticated(user), not_after, provider, keys)


def _end(token: Token, authenticator: JWTAuthenticator, now: float) -> float | None:
    """Until when the token is valid; None if it is not valid now or not for an audience of the issuer."""
    claims = token.claims
    audience = claims.get("aud")
    if not authenticator.audiences.intersection(_texts(audience)):
        return None
    end, start = _seconds(claims.get("exp")), _seconds(claims.get("nbf", 0))
    if end is None or start is None or end < now or now + _SKEW_SECONDS < start:
        return None
    return end


def _texts(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [one for one in values if isinstance(one, str)]


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
