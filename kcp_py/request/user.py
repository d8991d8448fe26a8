"""`UserInfo`: the user of a request, and the predefined users (k8s.io/apiserver `authentication/user`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

ALL_AUTHENTICATED: Final = "system:authenticated"
ALL_UNAUTHENTICATED: Final = "system:unauthenticated"
SYSTEM_MASTERS: Final = "system:masters"
"""Members have all permissions in every cluster and in the wildcard."""

SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
"""How the names of service accounts begin; namespace, colon and name follow."""
FOREIGN_SERVICE_ACCOUNT_PREFIX: Final = "system:kcp:serviceaccount:"
"""How the names of service accounts begin in other clusters than their own; cluster, namespace and name follow, with colons."""
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
"""The group of all service accounts of a cluster. Those of one namespace have this name with a colon and the namespace."""
CLUSTER_NAME_EXTRA: Final = "authentication.kcp.io/cluster-name"
"""The extra field with the cluster of a service account."""

_NO_EXTRA: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class UserInfo(NamedTuple):
    """A caller. Immutable, because all requests with one credential share it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = _NO_EXTRA


UNKNOWN: Final = UserInfo("")
"""The user of a request that was refused before authentication."""

ANONYMOUS: Final = UserInfo("system:anonymous", "", (ALL_UNAUTHENTICATED,))

LOOPBACK: Final = UserInfo("system:apiserver", "", (ALL_AUTHENTICATED, SYSTEM_MASTERS))
"""The user of writes of the server itself (k8s.io/apiserver `server.NewLoopbackClientConfig`)."""


def controller_user(controller: str) -> UserInfo:
    """The service account as which a controller of Kubernetes writes, such as `namespace-controller`.

    Policies and audit rules that exempt Kubernetes' own controllers name these accounts.
    """
    account = f"{SERVICE_ACCOUNT_PREFIX}kube-system:{controller}"
    return UserInfo(account, "", (*service_account_groups("kube-system"), ALL_AUTHENTICATED, SYSTEM_MASTERS))


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of the service accounts of a namespace (k8s.io/apiserver `serviceaccount.MakeGroupNames`)."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def foreign_service_account(cluster: str, namespace: str, name: str) -> str:
    """The user name of a service account in other clusters than its own (kcp `pkg/authorization/workspace_content_authorizer.go`)."""
    return f"{FOREIGN_SERVICE_ACCOUNT_PREFIX}{cluster}:{namespace}:{name}"


def authenticated(user: UserInfo) -> UserInfo:
    """The user with `system:authenticated` among the groups, which every caller but the anonymous one has."""
    if ALL_AUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return user._replace(groups=(*user.groups, ALL_AUTHENTICATED))
