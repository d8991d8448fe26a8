"""The answers to reviews of users: `kubectl auth whoami`, and what a service asks that was shown a token.

Source: kubernetes `pkg/registry/authentication`.
"""

from __future__ import annotations

from collections.abc import Callable

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.authenticator import Authenticator
from kcp_py.registry.rest.storage import Object, RestStorage
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.request.user import UserInfo


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

    def __init__(self, authenticator: Authenticator, audiences: tuple[str, ...]) -> None:
        """Prepare.

        Args:
            authenticator: knows the tokens.
            audiences: those that tokens without audiences of their own are for: the server's.
        """
        self._authenticator = authenticator
        self._audiences = audiences

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """The review with the user, or with the reason why there is none.

        Raises:
            StatusError: 400 for a review without a token.
        """
        del request
        spec = obj.get("spec") or {}
        token = spec.get("token")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        wanted = tuple(spec.get("audiences") or ()) or self._audiences
        shared = [audience for audience in wanted if audience in self._audiences]
        user = await self._user(token) if shared else None
        if user is None:
            return {**obj, "status": {"user": {}, "error": "invalid bearer token"}}
        return {**obj, "status": {"authenticated": True, "user": user_info(user), "audiences": shared}}

    async def _user(self, token: str) -> UserInfo | None:
        try:
            return await self._authenticator.authenticate({b"authorization": b"Bearer " + token.encode("utf-8", "replace")}, None)
        except StatusError:
            return None


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
