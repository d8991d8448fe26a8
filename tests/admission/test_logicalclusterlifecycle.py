"""The clusters that always exist stay, and each says where it is reached."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest

from kcp_py.admission import LogicalClusterLifecycle
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.rbac.policy import CLUSTER_OPERATORS, KCP_ADMINS
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.registry.admission import AdmissionChain
from kcp_py.registry.clusterlimits import LIMIT_ANNOTATIONS, OBJECTS_ANNOTATION
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


def _limits(value: str | None, annotation: str = OBJECTS_ANNOTATION) -> dict[str, Any]:
    return {"metadata": {"annotations": {annotation: value}}}


@pytest.mark.parametrize("annotation", LIMIT_ANNOTATIONS)
async def test_limits_are_set_by_administrators_of_all_clusters(world: World, annotation: str) -> None:
    """Administrators of a cluster can neither set, raise nor remove one, whichever way they write."""
    admins = world.client.acting_as(UserInfo("olga", "", (KCP_ADMINS,)))
    tenant = world.client.acting_as(UserInfo("tenant"))
    change = f"only administrators of all clusters can change the annotation {annotation}"

    async def refused(text: str, writing: Awaitable[object]) -> None:
        with pytest.raises(StatusError, match=text) as raised:
            await writing
        assert raised.value.code == 403

    async def patch(value: str | None, **more: Any) -> None:
        await tenant.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document=_limits(value, annotation), **more)

    await refused(change, patch("7"))
    await admins.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document=_limits("5", annotation))
    for value in ("6", "0", None):
        await refused(change, patch(value))
    held = await tenant.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    metadata = {name: value for name, value in held["metadata"].items() if name not in {"annotations", "managedFields"}}
    await refused(change, tenant.update(TEAM, LOGICAL_CLUSTERS, {**held, "metadata": metadata}))
    applied = {**CLUSTER, "metadata": {"name": "cluster", **_limits("9", annotation)["metadata"]}}
    await refused(change, tenant.apply(TEAM, LOGICAL_CLUSTERS, applied, field_manager="tenant", force=True))
    pointer = annotation.replace("/", "~1")
    removal = [{"op": "remove", "path": f"/metadata/annotations/{pointer}"}]
    await refused(change, tenant.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document=removal, patch_type="application/json-patch+json"))
    status = {**held, "metadata": {**held["metadata"], **_limits("9", annotation)["metadata"]}}
    with suppress(StatusError):  # the annotations of a status update are ignored or refused
        await tenant.update(TEAM, LOGICAL_CLUSTERS, status, subresource="status")
    shown = {**held, "status": {**held["status"], "limits": {"objects": 9}}}
    await refused("can change status", tenant.update(TEAM, LOGICAL_CLUSTERS, shown, subresource="status"))
    deletion = f"only administrators of all clusters can delete a logical cluster with the annotation {annotation}"
    await refused(deletion, tenant.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster"))
    await refused(deletion, tenant.delete_collection(TEAM, LOGICAL_CLUSTERS, ""))
    after = await tenant.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    assert after["metadata"]["annotations"][annotation] == "5"
    assert "deletionTimestamp" not in after["metadata"]
    await tenant.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document={"metadata": {"annotations": {"mine": "1"}}})
    await admins.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster")


async def test_a_new_cluster_gets_limits_from_administrators_alone(world: World) -> None:
    """Others could lift the default with an annotation of their own."""
    obj = {**CLUSTER, "metadata": {"name": "cluster", **_limits("0")["metadata"]}}
    tenant = world.client.acting_as(UserInfo("tenant"))
    with pytest.raises(StatusError, match=f"only administrators of all clusters can set the annotation {OBJECTS_ANNOTATION}"):
        await tenant.create(Name("new"), LOGICAL_CLUSTERS, obj)
    await world.client.create(Name("new"), LOGICAL_CLUSTERS, obj)


async def test_operators_of_clusters_set_limits(world: World) -> None:
    """They make and delete clusters; whether a cluster is switched off is not theirs to say."""
    operator = world.client.acting_as(UserInfo("olga", "", (CLUSTER_OPERATORS,)))
    await operator.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document=_limits("3"))
    with pytest.raises(StatusError, match=r"core\.kcp\.io/inactive"):
        await operator.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document=_limits("true", "core.kcp.io/inactive"))
    await operator.create(Name("new"), LOGICAL_CLUSTERS, {**CLUSTER, "metadata": {"name": "cluster", **_limits("4")["metadata"]}})
    await operator.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster")


async def test_a_limit_is_a_number(world: World) -> None:
    """422 for another text."""
    with pytest.raises(StatusError, match="must be a whole number; 0 means no limit") as refused:
        await world.client.patch(TEAM, LOGICAL_CLUSTERS, "", "cluster", document=_limits("many"))
    assert refused.value.code == 422
