"""Authorizers that need no stored rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kcp_py.authz.authorizer import ALLOWED, DENIED, Attributes, Decision, User
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard

SYSTEM_MASTERS: Final = "system:masters"

PUBLIC_PATHS: Final = ("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/")
"""What everybody may read, authenticated or not, with or without a cluster before it."""


class AlwaysAllowPaths:
    """Reads of fixed paths, and of what is below those that end with `/*` (`authorization/path` of k8s.io/apiserver)."""

    def __init__(self, paths: Iterable[str] = PUBLIC_PATHS) -> None:
        listed = frozenset(paths)
        self._below = tuple(path.removesuffix("*") for path in listed if path.endswith("/*"))
        self._paths = frozenset(path for path in listed if not path.endswith("/*"))

    async def authorize(self, user: User, cluster: ClusterSelection, attributes: Attributes) -> Decision | None:  # noqa: ARG002 - the protocol
        if attributes.is_resource or attributes.verb not in {"get", "head"}:
            return None
        path = attributes.path
        return ALLOWED if path in self._paths or path.startswith(self._below) else None


class PrivilegedGroups:
    """Members of these groups may do anything, in every cluster and in the wildcard."""

    def __init__(self, groups: Iterable[str] = (SYSTEM_MASTERS,)) -> None:
        self._groups = frozenset(groups)

    async def authorize(self, user: User, cluster: ClusterSelection, attributes: Attributes) -> Decision | None:  # noqa: ARG002 - the protocol
        return None if self._groups.isdisjoint(user.groups) else ALLOWED


class ExistingClusters:
    """Denies everything in a cluster that does not exist, worded like any other denial: nobody learns which clusters there are."""

    def __init__(self, exists: Callable[[Name], Awaitable[bool]]) -> None:
        self._exists = exists

    async def authorize(self, user: User, cluster: ClusterSelection, attributes: Attributes) -> Decision | None:  # noqa: ARG002 - the protocol
        if isinstance(cluster, Wildcard) or await self._exists(cluster):
            return None
        return DENIED
