"""Users that a system of the operator vouches for in every cluster: a webhook, or a front proxy. Pure.

Such a system may name any user and any group. What belongs to one cluster stays in it: the extra field `authentication.kcp.io/cluster-name`
means what it means in kcp (`pkg/authorization/workspace_content_authorizer.go`).
"""

from __future__ import annotations

from collections.abc import Callable

from kcp_py.logicalcluster import ClusterSelection, InvalidClusterError, parse_name
from kcp_py.request.user import CLUSTER_NAME_EXTRA, SERVICE_ACCOUNT_PREFIX, UserInfo, authenticated, foreign_service_account

Place = Callable[[ClusterSelection, UserInfo], UserInfo]
"""The user that a system vouches for, as it is known in a cluster: `user_in`, or `user_of_the_only` cluster."""


class UnplacedUserError(Exception):
    """The user does not exist in the cluster where the credential is used. `str()` is the reason, for logs."""


def user_in(cluster: ClusterSelection, user: UserInfo) -> UserInfo:
    """The user as it is known in a cluster.

    A service account has the extra field with its cluster. In other clusters it has the name that it has there, and no groups.

    Args:
        cluster: where the credential is used.
        user: as the system named it.

    Raises:
        UnplacedUserError: it is a user of another cluster, or a service account of no cluster: accounts of the same name exist in every
            cluster, and those of another control plane are not among them.
    """
    clusters = user.extra.get(CLUSTER_NAME_EXTRA)
    is_account = user.name.startswith(SERVICE_ACCOUNT_PREFIX)
    if clusters is None:
        if is_account:
            raise UnplacedUserError(f"a service account needs the extra field {CLUSTER_NAME_EXTRA}")
        return authenticated(user)
    if len(clusters) != 1:
        raise UnplacedUserError(f"the extra field {CLUSTER_NAME_EXTRA} needs one value")
    try:
        own = parse_name(clusters[0])
    except InvalidClusterError:
        raise UnplacedUserError(f"the extra field {CLUSTER_NAME_EXTRA} is not the name of a cluster") from None
    if own == cluster:
        return authenticated(user)
    namespace, _, name = user.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not is_account or not namespace or not name or ":" in name:
        raise UnplacedUserError("the user is one of another cluster")
    return authenticated(UserInfo(foreign_service_account(own, namespace, name), user.uid, (), user.extra))


def user_of_the_only(cluster: ClusterSelection, user: UserInfo) -> UserInfo:
    """The user in a server with one logical cluster, whose users and service accounts are those of the system."""
    del cluster
    return authenticated(user)
