"""Users that webhooks and front proxies vouch for, in single clusters."""

from __future__ import annotations

import pytest

from kcp_py.authn.vouched import UnplacedUserError, user_in
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, Name
from kcp_py.request.user import UserInfo

TEAM_A, TEAM_B = Name("team-a"), Name("team-b")
ACCOUNT = "system:serviceaccount:default:builder"


def of(*clusters: str, name: str = ACCOUNT) -> UserInfo:
    return UserInfo(name, "u1", ("system:serviceaccounts", "system:masters"), {"authentication.kcp.io/cluster-name": clusters})


@pytest.mark.parametrize("cluster", [TEAM_A, WILDCARD])
def test_ordinary_users_are_the_same_everywhere(cluster: ClusterSelection) -> None:
    """A system of the operator may name any user and group."""
    user = UserInfo("system:admin", "1", ("system:masters",), {"a": ("b",)})
    assert user_in(cluster, user) == user._replace(groups=("system:masters", "system:authenticated"))


def test_an_account_in_its_cluster() -> None:
    """It is the account of the name, with the groups that it was given."""
    assert user_in(TEAM_A, of("team-a")) == of("team-a")._replace(
        groups=("system:serviceaccounts", "system:masters", "system:authenticated")
    )


@pytest.mark.parametrize("cluster", [TEAM_B, WILDCARD])
def test_an_account_elsewhere(cluster: ClusterSelection) -> None:
    """It has the name of a foreign account, and none of its groups."""
    found = user_in(cluster, of("team-a"))
    assert found == UserInfo("system:kcp:serviceaccount:team-a:default:builder", "u1", ("system:authenticated",), of("team-a").extra)


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        (TEAM_A, UserInfo(ACCOUNT)),
        (TEAM_A, of()),
        (TEAM_A, of("team-a", "team-b")),
        (TEAM_A, of("*")),
        (TEAM_A, of("root:org:ws")),
        (TEAM_A, of("team-a/../team-b")),
        (TEAM_A, of("")),
        (TEAM_B, of("team-a", name="alice")),
        (WILDCARD, of("team-a", name="alice")),
        (TEAM_B, of("team-a", name="system:serviceaccount:default")),
        (TEAM_B, of("team-a", name="system:serviceaccount::builder")),
        (TEAM_B, of("team-a", name="system:serviceaccount:default:a:b")),
    ],
)
def test_users_of_other_clusters(cluster: ClusterSelection, user: UserInfo) -> None:
    """A user of one cluster does not exist in another one, and a service account needs a cluster."""
    with pytest.raises(UnplacedUserError):
        user_in(cluster, user)
