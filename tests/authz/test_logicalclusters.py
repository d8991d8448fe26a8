"""What administrators of one cluster can do to its LogicalCluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.authz.conftest import ALICE, OPERATOR, RBAC, binding
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

CLUSTER = "/clusters/team-a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture(autouse=True)
async def administrator(api: Api) -> None:
    """Alice administers the cluster."""
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "cluster-admin", "User:alice"))


@pytest.mark.parametrize(("path", "change", "what"), [
    (CLUSTER, {"spec": {"directlyDeletable": False}}, "spec"),
    (CLUSTER, {"spec": {"owner": {"apiVersion": "v1", "resource": "x", "name": "y", "cluster": "team-b", "uid": "1"}}}, "spec"),
    (CLUSTER, {"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}, "the annotation core.kcp.io/inactive"),
    (CLUSTER, {"metadata": {"annotations": {"internal.kcp.io/inactive": "true"}}}, "the annotation internal.kcp.io/inactive"),
    (CLUSTER, {"metadata": {"labels": {"access.kcp-py.dev/tier": "gold"}}}, "the label access.kcp-py.dev/tier"),
    (f"{CLUSTER}/status", {"status": {"URL": "https://elsewhere.test"}}, "status"),
    (f"{CLUSTER}/status", {"status": {"phase": "Deleting"}}, "status"),
])  # fmt: skip
async def test_what_is_for_administrators_of_all_clusters(api: Api, path: str, change: dict[str, Any], what: str) -> None:
    """Specification, status and whether the cluster is active: refused to the cluster's administrator, and open to theirs."""
    content = json.dumps(change).encode()
    refused = await api.fails(403, "PATCH", path, content=content, headers=MERGE, token=ALICE)
    assert (
        refused["message"] == f'logicalclusters.core.kcp.io "cluster" is forbidden: only administrators of all clusters can change {what}'
    )
    await api.ok("PATCH", path, content=content, headers=MERGE, token=OPERATOR)


async def test_an_inactive_cluster_stays_inactive(api: Api) -> None:
    """Its administrator cannot make it active again, by a patch or by an update."""
    await api.ok("PATCH", CLUSTER, content=b'{"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}', headers=MERGE)
    active = b'{"metadata": {"annotations": {"core.kcp.io/inactive": null}}}'
    await api.fails(403, "PATCH", CLUSTER, content=active, headers=MERGE, token=ALICE)
    obj = await api.ok("GET", CLUSTER)
    del obj["metadata"]["annotations"]["core.kcp.io/inactive"]
    await api.fails(403, "PUT", CLUSTER, obj, token=ALICE)
    await api("PATCH", f"{CLUSTER}/status", content=active, headers=MERGE, token=ALICE)
    assert (await api.ok("GET", CLUSTER))["metadata"]["annotations"]["core.kcp.io/inactive"] == "true"
    await api.ok("PATCH", CLUSTER, content=active, headers=MERGE, token=OPERATOR)


async def test_what_is_for_the_administrator_of_the_cluster(api: Api) -> None:
    """Labels, other annotations, and the deletion of the cluster."""
    change = b'{"metadata": {"labels": {"team": "a"}, "annotations": {"kcp-py.io/deletion-protection": "true"}}}'
    await api.ok("PATCH", CLUSTER, content=change, headers=MERGE, token=ALICE)
    await api.fails(403, "DELETE", CLUSTER, token=ALICE)
    change = b'{"metadata": {"annotations": {"kcp-py.io/deletion-protection": null}}}'
    await api.ok("PATCH", CLUSTER, content=change, headers=MERGE, token=ALICE)
    await api.ok("DELETE", CLUSTER, token=ALICE)
