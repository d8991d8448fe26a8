"""Paths of a program next to the API: which are possible, and who may read them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from kcp_py.authz.authorizer import NO_OPINION, Decision
from kcp_py.logicalcluster import ROOT, WILDCARD, ClusterSelection, Name
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import ALL_AUTHENTICATED, UserInfo
from kcp_py.server.chain import ASGIApp

Access = Literal["permitted", "cluster", "authenticated", "everyone"]
"""Who may request a path: users with a permission for it in `root`, users with one in the logical cluster of the request, every user, or
anonymous callers, too."""
Decide = Callable[[UserInfo, ClusterSelection, RequestInfo], Awaitable[Decision | None]]

_OF_SERVER: Final = frozenset(
    (".well-known", "api", "apis", "clusters", "docs", "healthz", "livez", "metrics", "openapi", "openid", "readyz", "tap", "version")
)
"""First segments of the paths of the server."""
_PARAMETER: Final = re.compile(r"\{\w+(?::(\w+))?\}")
_FORMS: Final = {
    None: "[^/]+",
    "str": "[^/]+",
    "path": ".*",
    "int": "[0-9]+",
    "float": r"[0-9]+(\.[0-9]+)?",
    "uuid": "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}",
}
"""The types of parameters and their texts (starlette `convertors.py`)."""


class Route(NamedTuple):
    """A function of a program that answers a path."""

    path: str
    """With parameters as `{name}`, or `{name:path}` for several segments."""
    function: Callable[..., Any]
    methods: Sequence[str]
    settings: Mapping[str, Any]
    """Further arguments of FastAPI's `add_api_route`."""
    access: Access


class Mount(NamedTuple):
    """An ASGI application of a program that answers all paths below one."""

    path: str
    application: ASGIApp
    access: Access


def check_path(path: str, access: str) -> None:
    """Check where a route or an application shall be.

    Raises:
        TypeError: the path is not a text.
        ValueError: the path is not one, or belongs to the server; there is no such access.
    """
    if not isinstance(path, str):
        raise TypeError(f'{path!r} is not a path; a route is written with brackets: @control_plane.get("/fleet")')
    first = path.strip("/").partition("/")[0]
    if not path.startswith("/") or not first or "//" in path or path.endswith("/") or any(one in path for one in "?#%"):
        raise ValueError(f'"{path}" is not a path such as /fleet or /fleet/{{name}}, without a slash at its end')
    if first in _OF_SERVER or first.startswith("{"):
        raise ValueError(f'"{path}" would hide paths of the server: its first segment must be none of {", ".join(sorted(_OF_SERVER))}')
    if unknown := {found[1] for found in _PARAMETER.finditer(path)} - _FORMS.keys():
        raise ValueError(f'"{path}" has parameters of the type {", ".join(sorted(unknown))}; there are {", ".join(filter(None, _FORMS))}')
    if access not in get_args(Access):
        raise ValueError(f'access "{access}" is none of {", ".join(get_args(Access))}')


class OwnPaths:
    """Decides about requests for paths of a program: by the access of the application or the route that answers."""

    announces_changes: Final = True

    def __init__(
        self,
        routes: Sequence[Route],
        mounts: Sequence[Mount],
        authorize: Decide,
        *,
        home: Name = ROOT,
    ) -> None:
        """Decide as the routes and mounts say.

        Args:
            routes: in the order in which they are tried.
            mounts: precede the routes.
            authorize: asks all authorizers, this one included.
            home: the logical cluster of requests that name none.
        """
        self._mounts = sorted(mounts, key=lambda mount: -len(mount.path))
        self._routes = [(_pattern(route.path), frozenset(route.methods), route.access) for route in routes]
        self._authorize = authorize
        self._home = home

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """`Authorizer.authorize`. None of these answers is about all clusters at once."""
        if info.is_resource or (access := self._access(info)) in {None, "cluster"}:
            return None
        if access == "permitted":
            if cluster == self._home:
                return None
            # Final: administrators of other logical clusters have all permissions there.
            return (await self._authorize(user, self._home, info) or NO_OPINION)._replace(final=True)
        if cluster is WILDCARD or (access == "authenticated" and ALL_AUTHENTICATED not in user.groups):
            return None
        return Decision(allowed=True)

    def _access(self, info: RequestInfo) -> Access | None:
        """That of what answers a request; None where nothing of the program does."""
        path = info.path
        for mount in self._mounts:
            if path == mount.path or path.startswith(f"{mount.path}/"):
                return mount.access
        found = [(methods, access) for pattern, methods, access in self._routes if pattern.fullmatch(path)]
        method = info.verb.upper()
        # Without a route for the method, the answer is 405.
        return next((access for methods, access in found if method in methods), "permitted" if found else None)


def _pattern(path: str) -> re.Pattern[str]:
    parts, at = [], 0
    for found in _PARAMETER.finditer(path):
        parts += [re.escape(path[at : found.start()]), _FORMS[found[1]]]
        at = found.end()
    return re.compile("".join([*parts, re.escape(path[at:])]), re.DOTALL)
