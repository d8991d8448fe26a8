"""The answers to reviews of users: `kubectl auth whoami`, and what a service asks that was shown a token.

Source: kubernetes `pkg/registry/authentication`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.authn.tokens import MAX_TOKEN_BYTES, Audiences, TokenAuthenticator, TokenRefusedError
from kcp_py.registry.rest.storage import Object, RestStorage
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.request.user import UserInfo

_INVALID: Final = "invalid bearer token"


class SelfSubjectReviews(RestStorage):
    """Answers with the caller, as the server knows it."""

    def __init__(self, now: Callable[[], str]) -> None:
        """Prepare. `now` is the present as RFC 3339 with seconds."""
        self._now = now

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """The caller."""
        del obj
        return {"metadata": {"creationTimestamp": self._now()}, "status": {"userInfo": user_info(request.context.user)}}


class TokenReviews(RestStorage):
    """Answers with the user of a bearer token."""

    def __init__(self, tokens: TokenAuthenticator, audiences: Audiences) -> None:
        """Prepare.

        Args:
            tokens: verifies the tokens.
            audiences: of this server. Reviews that name none are about them.
        """
        self._tokens = tokens
        self._audiences = audiences

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """The review with the user, or with the reason why there is none.

        Raises:
            StatusError: 400 for a review without a token.
        """
        spec = obj.get("spec") or {}
        token = spec.get("token")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        wanted = tuple(spec.get("audiences") or ()) or self._audiences
        shown = token.encode("utf-8", "replace")
        # A request could not show a longer one.
        is_possible = len(shown) <= MAX_TOKEN_BYTES
        reasons: Sequence[str] = ()
        try:
            found = await self._tokens.authenticate_token(shown, request.context.cluster, wanted) if is_possible else None
        except TokenRefusedError as error:
            found, reasons = None, error.reasons
        if found is None:
            return {**obj, "status": {"user": {}, "error": _error_of(reasons)}}
        return {**obj, "status": {"authenticated": True, "user": user_info(found.user), "audiences": list(found.audiences)}}


def _error_of(reasons: Iterable[str]) -> str:
    """The error of a review. In kube-apiserver an authenticator that knows no reason is always among those that refuse a token."""
    every = list(dict.fromkeys((_INVALID, *reasons)))
    return _INVALID if len(every) == 1 else f"[{', '.join(every)}]"


def user_info(user: UserInfo) -> Object:
    """A user as reviews and admission requests print it."""
    printed: Object = {"username": user.name}
    if user.uid:
        printed["uid"] = user.uid
    if user.groups:
        printed["groups"] = list(user.groups)
    if user.extra:
        printed["extra"] = {key: list(values) for key, values in user.extra.items()}
    return printed
