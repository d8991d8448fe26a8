"""The initial object of a cluster, and its valid values."""

from __future__ import annotations

from kcp_py.apis.kcp.logicalclusters import LogicalClusterStrategy
from kcp_py.logicalcluster import Name
from kcp_py.tenancy import LOGICAL_CLUSTER, new_logical_cluster
from kcp_py.tenancy.logicalcluster import logical_cluster_keys

TEAM = Name("team-a")
CREATED = "2026-01-01T00:00:00Z"


def test_a_new_cluster_is_ready() -> None:
    """It is valid, cannot go before its content, and names its phase in status and label alike."""
    obj = new_logical_cluster(TEAM, "1", CREATED, url="https://kcp.test")
    assert LogicalClusterStrategy().validate(obj) == []
    assert (obj["apiVersion"], obj["kind"]) == ("core.kcp.io/v1alpha1", "LogicalCluster")
    assert obj["metadata"] == {
        "name": "cluster",
        "uid": "1",
        "creationTimestamp": CREATED,
        "generation": 1,
        "finalizers": ["core.kcp.io/logicalcluster-deletion"],
        "labels": {"tenancy.kcp.io/phase": "Ready"},
    }
    assert obj["status"] == {"phase": "Ready", "URL": "https://kcp.test/clusters/team-a"}
    assert "URL" not in new_logical_cluster(TEAM, "1", CREATED, url="")["status"]


def test_keys() -> None:
    """One object of a cluster-scoped resource in every cluster."""
    keys = logical_cluster_keys("/registry")
    assert keys.object_key(TEAM, "", "cluster") == "/registry/core.kcp.io/logicalclusters/team-a/cluster"
    assert LOGICAL_CLUSTER == ("core.kcp.io", "v1alpha1", "logicalclusters")
