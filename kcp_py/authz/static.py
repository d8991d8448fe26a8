"""Authorizers without stored rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kcp_py.apis.rbac.policy import CLUSTER_OPERATORS
from kcp_py.authz.authorizer import ALLOWED, NO_OPINION, Decision, ImmediateAuthorizer
from kcp_py.authz.rbac.resolver import Rules
from kcp_py.authz.rbac.rules import FULL_AUTHORITY
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import ALL_UNAUTHENTICATED, SYSTEM_MASTERS, UserInfo
from kcp_py.tenancy import LOGICAL_CLUSTER

PUBLIC_PATHS: Final = ("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/")
"""Paths that all callers may read, authenticated or not, with or without a cluster in the path."""

_READS: Final = frozenset(("get", "list", "watch"))
_LOGICAL_CLUSTERS: Final = (LOGICAL_CLUSTER.group, LOGICAL_CLUSTER.resource)


class AlwaysAllowPaths(ImmediateAuthorizer):
    """Allows reads of fixed paths, and of the paths below entries that end with `/*` (`authorization/path` of k8s.io/apiserver)."""

    announces_changes: Final = True

    def __init__(self, paths: Iterable[str] = PUBLIC_PATHS) -> None:
        listed = frozenset(paths)
        self._below = tuple(path.removesuffix("*") for path in listed if path.endswith("/*"))
        self._paths = frozenset(path for path in listed if not path.endswith("/*"))

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:  # noqa: ARG002 - the protocol
        if info.is_resource or info.verb not in {"get", "head"}:
            return None
        path = info.path
        return ALLOWED if path in self._paths or path.startswith(self._below) else None


class PrivilegedGroups(ImmediateAuthorizer):
    """Allows all requests of members of these groups, in every cluster and in the wildcard."""

    announces_changes: Final = True

    def __init__(self, groups: Iterable[str] = (SYSTEM_MASTERS,)) -> None:
        self._groups = frozenset(groups)

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:  # noqa: ARG002 - the protocol
        return None if self._groups.isdisjoint(user.groups) else ALLOWED


class WithoutRoles(ImmediateAuthorizer):
    """In the place of RBAC where no roles are served: it has no opinion, and says why in the message of a refusal."""

    announces_changes: Final = True

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:  # noqa: ARG002 - the protocol
        return NO_OPINION._replace(reason="this server has no roles: the battery rbac is not selected")

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:  # noqa: ARG002 - the protocol
        """No rules."""
        return Rules((), ())


class ClusterOperators(ImmediateAuthorizer):
    """Allows members of `system:kcp:cluster-operator` to read the LogicalClusters of all clusters.

    In single clusters they have the role of this name, but roles and bindings do not decide about requests over all clusters.
    """

    announces_changes: Final = True

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        if not isinstance(cluster, Wildcard) or CLUSTER_OPERATORS not in user.groups:
            return None
        is_read = info.is_resource and not info.subresource and info.verb in _READS
        return ALLOWED if is_read and (info.group, info.resource) == _LOGICAL_CLUSTERS else None


class AlwaysAllow(ImmediateAuthorizer):
    """Allows every request of authenticated callers, in every cluster and over all clusters. For tests.

    Callers without credentials are left to other authorizers. kube-apiserver accepts none with this authorizer.
    """

    announces_changes: Final = True

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:  # noqa: ARG002 - the protocol
        return None if ALL_UNAUTHENTICATED in user.groups else ALLOWED

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:
        """Rules for everything."""
        del cluster, namespace
        return Rules(() if ALL_UNAUTHENTICATED in user.groups else FULL_AUTHORITY, ())


class AlwaysDeny(ImmediateAuthorizer):
    """Allows nothing, and leaves requests to other authorizers. For tests."""

    announces_changes: Final = True

    def decide(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:  # noqa: ARG002 - the protocol
        return Decision(allowed=False, reason="Everything is forbidden.", final=False)

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:
        """No rules."""
        del user, cluster, namespace
        return Rules((), ())
