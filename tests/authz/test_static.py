from __future__ import annotations

import pytest

from kcp_py.apis.rbac.policy import CLUSTER_OPERATORS
from kcp_py.authn import UserInfo
from kcp_py.authz import ALLOWED, AlwaysAllowPaths, PrivilegedGroups
from kcp_py.authz.static import ClusterOperators
from kcp_py.logicalcluster import ROOT, WILDCARD, Name
from kcp_py.request.requestinfo import parse_request

pytestmark = pytest.mark.anyio

ALICE = UserInfo("alice", "", ("team", "system:authenticated"))
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
MASTER = UserInfo("root", "", ("system:masters",))


@pytest.mark.parametrize(
    ("method", "path", "decision"),
    [
        ("GET", "/healthz", ALLOWED),
        ("HEAD", "/healthz", ALLOWED),
        ("GET", "/livez/ping", ALLOWED),
        ("GET", "/readyz/poststarthook/x", ALLOWED),
        ("GET", "/version", ALLOWED),
        ("GET", "/version/", ALLOWED),
        ("POST", "/healthz", None),
        ("GET", "/healthzz", None),
        ("GET", "/version/x", None),
        ("GET", "/metrics", None),
        ("GET", "/", None),
        ("GET", "/HEALTHZ", None),
        ("GET", "/api/v1/namespaces/healthz", None),
        ("GET", "/apis/healthz", None),
    ],
)
async def test_paths(method, path, decision):
    """Only reads of health and version are public."""
    assert await AlwaysAllowPaths().authorize(ALICE, ROOT, parse_request(method, path, {})) == decision


@pytest.mark.parametrize("cluster", [ROOT, Name("team-a"), WILDCARD])
async def test_privileged_groups(cluster):
    """Members may do anything anywhere; about others there is no opinion."""
    info = parse_request("DELETE", "/api/v1/secrets", {})
    assert await PrivilegedGroups().authorize(MASTER, cluster, info) == ALLOWED
    assert await PrivilegedGroups().authorize(ALICE, cluster, info) is None
    assert await PrivilegedGroups().authorize(UserInfo("system:masters"), cluster, info) is None


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CLUSTERS, True),
        ("GET", f"{CLUSTERS}?watch=true", True),
        ("GET", f"{CLUSTERS}/cluster", True),
        ("GET", f"{CLUSTERS}/cluster/status", False),
        ("POST", CLUSTERS, False),
        ("DELETE", f"{CLUSTERS}/cluster", False),
        ("DELETE", CLUSTERS, False),
        ("GET", "/apis/example.com/v1/logicalclusters", False),
        ("GET", "/apis/core.kcp.io/v1alpha1/others", False),
        ("GET", "/apis/core.kcp.io/v1alpha1", False),
        ("GET", "/api/v1/secrets", False),
    ],
)
async def test_cluster_operators(method, path, allowed):
    """Over all clusters members read LogicalClusters alone. In single clusters, and about others, there is no opinion."""
    path, _, query = path.partition("?")
    info = parse_request(method, path, {"watch": ["true"]} if query else {})
    member = UserInfo("olga", "", (CLUSTER_OPERATORS,))
    assert await ClusterOperators().authorize(member, WILDCARD, info) == (ALLOWED if allowed else None)
    for user, cluster in ((member, Name("team-a")), (ALICE, WILDCARD), (UserInfo(CLUSTER_OPERATORS), WILDCARD)):
        assert await ClusterOperators().authorize(user, cluster, info) is None
