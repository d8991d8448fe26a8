"""Callers that may impersonate in one cluster do not get permissions that count in all clusters."""

from __future__ import annotations

import pytest

from kcp_py.authz.withheld import withheld
from kcp_py.logicalcluster import Name
from kcp_py.request.user import UserInfo
from tests.authz.conftest import ALICE, MAPS, OPERATOR, RBAC, binding, role, rule
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

HERE = Name("team-a")
CLUSTER = "authentication.kcp.io/cluster-name"


@pytest.mark.parametrize(("groups", "extra"), [
    (["dev", "system:masters"], {}),
    (["system:kcp:admin"], {}),
    (["system:kcp:logical-cluster-admin"], {}),
    ([], {CLUSTER: ["team-b"]}),
    ([], {CLUSTER: ["team-a", "team-b"]}),
    ([], {"Authentication.KCP.io/cluster-name": ["team-a"]}),
    ([], {"authorization.kcp.io/warrant": ["{}"]}),
    ([], {"kcp.io": ["x"]}),
    ([], {"kcp-py.io/x": ["x"]}),
])  # fmt: skip
def test_what_is_withheld(groups: list[str], extra: dict[str, list[str]]) -> None:
    """Callers need the groups and extra fields themselves; members of `system:masters` need nothing."""
    assert withheld(UserInfo("alice", groups=("dev", "system:authenticated")), HERE, groups, extra)
    assert withheld(UserInfo("alice", extra={CLUSTER: ("team-c",)}), HERE, groups, extra)
    holder = UserInfo("alice", groups=tuple(groups), extra={key: tuple(values) for key, values in extra.items()})
    assert not withheld(holder, HERE, groups, extra)
    assert not withheld(UserInfo("admin", groups=("system:masters",)), HERE, groups, extra)


@pytest.mark.parametrize(("groups", "extra"), [
    (["dev", "system:authenticated", "system:serviceaccounts:default"], {}),
    ([], {CLUSTER: ["team-a"]}),
    ([], {"scopes": ["a"], "notkcp.io/x": ["a"]}),
])  # fmt: skip
def test_what_is_free(groups: list[str], extra: dict[str, list[str]]) -> None:
    """RBAC alone decides about other groups and extra fields, and about the cluster of the request."""
    assert not withheld(UserInfo("alice"), HERE, groups, extra)


async def test_an_administrator_of_a_cluster(api: Api) -> None:
    """It acts as other users, and neither as an administrator of all clusters nor as a service account of another one."""
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "cluster-admin", "User:alice"))
    await api.ok("GET", MAPS, token=ALICE, headers={"Impersonate-User": "alice", "Impersonate-Group": "system:authenticated"})
    for group in ("system:masters", "system:kcp:admin"):
        refused = await api.fails(403, "GET", MAPS, token=ALICE, headers={"Impersonate-User": "x", "Impersonate-Group": group})
        assert refused["message"] == (
            'configmaps is forbidden: User "alice" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the '
            f'namespace "default": only members of the group "{group}" can impersonate it'
        )
    account = {"Impersonate-User": "system:serviceaccount:default:a", "Impersonate-Extra-authentication.kcp.io%2Fcluster-name": "team-b"}
    refused = await api.fails(403, "GET", MAPS, token=ALICE, headers=account)
    assert refused["message"].endswith('only users that have the extra field "authentication.kcp.io/cluster-name" can impersonate it')


async def test_an_impersonator_without_permissions(api: Api) -> None:
    """The verb `impersonate` on all groups does not give the permissions of `system:masters` in the cluster itself."""
    everyone = rule("impersonate", "users groups")
    await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", everyone, {"nonResourceURLs": ["/"], "verbs": ["access"]}))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))
    headers = {"Impersonate-User": "x", "Impersonate-Group": "system:masters"}
    await api.fails(403, "DELETE", "/clusters/team-a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster", token=ALICE, headers=headers)


async def test_an_administrator_of_all_clusters(api: Api) -> None:
    """It can hand on its own group, and not the one above it."""
    await api.ok("GET", MAPS, token=OPERATOR, headers={"Impersonate-User": "x", "Impersonate-Group": "system:kcp:admin"})
    await api.fails(403, "GET", MAPS, token=OPERATOR, headers={"Impersonate-User": "x", "Impersonate-Group": "system:masters"})
