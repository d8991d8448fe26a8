"""The clusters that always exist stay, and each says where it is reached."""

from __future__ import annotations

import pytest

from kcp_py.admission import LogicalClusterLifecycle
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.rbac.policy import CLUSTER_OPERATORS, KCP_ADMINS
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.registry.admission import AdmissionChain
from kcp_py.request.user import UserInfo
from tests.client.registry import LOGICAL_CLUSTERS
from tests.registry.store.conftest import TEAM, World

pytestmark = pytest.mark.anyio

CLUSTER = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "cluster"}}


@pytest.mark.parametrize("cluster", [ROOT, Name("system:admin")])
async def test_clusters_of_the_system_stay(world: World, cluster: Name) -> None:
    """403 in kcp's words, for a dry run, too; others go."""
    await world.registry.clusters.ensure(cluster)
    with pytest.raises(StatusError, match="LogicalCluster cannot be deleted") as refused:
        await world.client.delete(cluster, LOGICAL_CLUSTERS, "", "cluster")
    assert refused.value.code == 403
    await world.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster")


async def test_a_cluster_says_where_it_is_reached(world: World) -> None:
    """From its creation on, where the server knows its own address."""
    world.registry.access.admission = AdmissionChain((LogicalClusterLifecycle(lambda name: f"https://kcp.test/clusters/{name}"),))
    made = await world.client.create(Name("new"), LOGICAL_CLUSTERS, CLUSTER)
    assert made["status"]["URL"] == "https://kcp.test/clusters/new"


async def test_clusters_of_the_system_are_made_by_the_server_alone(world: World) -> None:
    """And by `system:masters`. Other callers could fill the server with clusters that cannot be deleted."""
    name = Name("system:mine")
    for groups in ((), (KCP_ADMINS,), (CLUSTER_OPERATORS,)):
        client = world.client.acting_as(UserInfo("olga", "", groups))
        with pytest.raises(StatusError, match="only members of system:masters can create clusters of the system") as refused:
            await client.create(name, LOGICAL_CLUSTERS, CLUSTER)
        assert refused.value.code == 403
        await client.create(Name(f"other-{len(groups)}{len(''.join(groups))}"), LOGICAL_CLUSTERS, CLUSTER)
    await world.client.create(name, LOGICAL_CLUSTERS, CLUSTER)
