"""Paths of a program next to the API: which are possible, and who may read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from kcp_py.authz.authorizer import ALLOWED, Decision, ImmediateAuthorizer
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import ALL_AUTHENTICATED, UserInfo
from kcp_py.server.chain import ASGIApp

Access = Literal["permitted", "authenticated", "everyone"]
"""Who may request a path: users with a permission for it, every user, or anonymous callers, too."""

_OF_SERVER: Final = frozenset(
    (".well-known", "api", "apis", "clusters", "docs", "healthz", "livez", "metrics", "openapi", "openid", "readyz", "tap", "version")
)
"""First segments of the paths of the server."""
_PARAMETER: Final = re.compile(r"\{\w+(?::(\w+))?\}")


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
        ValueError: the path is not one, or belongs to the server; there is no such access.
    """
    first = path.strip("/").partition("/")[0]
    if not path.startswith("/") or not first or "//" in path or path.endswith("/") or any(one in path for one in "?#%"):
        raise ValueError(f'"{path}" is not a path such as /fleet or /fleet/{{name}}, without a slash at its end')
    if first in _OF_SERVER or first.startswith("{"):
        raise ValueError(f'"{path}" would hide paths of the server: its first segment must be none of {", ".join(sorted(_OF_SERVER))}')
    if access not in {"permitted", "authenticated", "everyone"}:
        raise ValueError(f'access "{access}" is none of permitted, authenticated, everyone')


class OwnPaths(ImmediateAuthorizer):
    """Allows requests for paths of a program that need no permission."""

    announces_changes: Final = True

    def __init__(self, routes: Sequence[Route], mounts: Sequence[Mount]) -> None:
        """Allow what the routes and mounts say."""
        patterns = [(route.access, _pattern(route.path), frozenset(route.methods)) for route in routes]
        patterns += [(mount.access, re.compile(f"{re.escape(mount.path)}(/.*)?", re.DOTALL), frozenset[str]()) for mount in mounts]
        self._patterns = [one for one in patterns if one[0] != "permitted"]

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """The answer of `authorize`."""
        del cluster
        if info.is_resource:
            return None
        for access, pattern, methods in self._patterns:
            method = "HEAD" if info.verb == "head" else info.verb.upper()
            if (not methods or method in methods) and pattern.fullmatch(info.path):
                return ALLOWED if access == "everyone" or ALL_AUTHENTICATED in user.groups else None
        return None


def _pattern(path: str) -> re.Pattern[str]:
    parts, at = [], 0
    for found in _PARAMETER.finditer(path):
        parts += [re.escape(path[at : found.start()]), ".*" if found[1] == "path" else "[^/]+"]
        at = found.end()
    return re.compile("".join([*parts, re.escape(path[at:])]), re.DOTALL)
