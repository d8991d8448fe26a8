"""Functions of a program as authenticators and authorizers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from kcp_py.authn.authenticator import Credentials
from kcp_py.authz.authorizer import Decision
from kcp_py.library.functions import caller, check_parameters, wrong_result
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo

Authenticating = Callable[[Credentials], Awaitable[UserInfo | None] | UserInfo | None]
Authorizing = Callable[[UserInfo, ClusterSelection, RequestInfo], Awaitable[Decision | bool | None] | Decision | bool | None]


class FunctionAuthenticator:
    """Asks a function who makes a request."""

    def __init__(self, function: Authenticating, *, thread: bool = False) -> None:
        """Adapt a function: see `functions.caller`."""
        self._function = function
        check_parameters(function, "credentials")
        self._call = caller(function, thread=thread)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """`Authenticator.authenticate`.

        Raises:
            TypeError: the function returned something else than a user or None.
        """
        found = self._call(credentials.cluster, credentials)
        if isawaitable(found):
            found = await found
        if found is not None and not isinstance(found, UserInfo):
            raise wrong_result(self._function, found, "UserInfo or None")
        return found


class FunctionAuthorizer:
    """Asks a function what a user may do."""

    def __init__(self, function: Authorizing, *, thread: bool = False) -> None:
        """Adapt a function: see `functions.caller`."""
        self._function = function
        check_parameters(function, "user", "cluster", "info")
        self._call = caller(function, thread=thread)

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """`Authorizer.authorize`. True allows requests to one cluster, False refuses, None leaves the decision to other authorizers.

        Raises:
            TypeError: the function returned something else.
        """
        found = self._call(cluster, user, cluster, info)
        if isawaitable(found):
            found = await found
        if found is None or isinstance(found, Decision):
            return found
        if isinstance(found, bool):
            return Decision(allowed=found)
        raise wrong_result(self._function, found, "Decision, True, False or None")
