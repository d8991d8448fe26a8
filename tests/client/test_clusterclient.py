"""The API of one cluster with typed objects, in process and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS, GroupVersionResource
from kcp_py.client import LocalClient
from kcp_py.client.remote import RemoteClient
from kcp_py.client.transport import Transport
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import WILDCARD
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, config_map
from tests.client.served import options_of, served
from tests.client.ships import SHIPS, Meta, Raft, Ship, ShipSpec, ship_crd

pytestmark = pytest.mark.anyio

NAMESPACES = GroupVersionResource("", "v1", "namespaces")


@pytest.fixture(params=["in process", "over HTTP"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalClient | RemoteClient]:
    async with ControlPlane(options_of(tmp_path, controllers=("customresourcedefinition-controller",))) as control_plane:
        local = control_plane.client
        for cluster in (TEAM, OTHER):
            await local.create(cluster, CRDS, ship_crd())
            while await local.find_resource(cluster, SHIPS.group_resource) is None:
                await asyncio.sleep(0)
        if request.param == "in process":
            yield local
            return
        async with served(control_plane) as context, RemoteClient(Transport(context)) as remote:
            yield remote


def argo(**spec: Any) -> Ship:
    return Ship(metadata=Meta(name="argo"), spec=ShipSpec(homePort="Iolcus", **spec))


async def test_typed_objects_go_in_and_come_out(client: LocalClient | RemoteClient) -> None:
    """Create, get, update, status, patch, scale, apply and delete; what the class does not know stays."""
    team = client.cluster("team-a")
    made = await team.create(argo())
    assert (made.metadata.namespace, made.spec.crew) == ("default", 10)
    await team.patch(made, {"spec": {"oars": 50}})

    ship = await team.get(Ship, "argo")
    ship.spec.crew = 20
    await team.update(ship)
    raw = await team.get(SHIPS, "argo")
    assert raw["spec"] == {"homePort": "Iolcus", "crew": 20, "oars": 50}
    with pytest.raises(StatusError) as caught:
        await team.update(ship)
    assert caught.value.reason == "Conflict"

    copied = (await team.get(Ship, "argo")).model_copy(deep=True)
    copied.spec.crew = 30
    updated = await team.update(copied)
    assert (await team.get(SHIPS, "argo"))["spec"] == {"homePort": "Iolcus", "crew": 30, "oars": 50}
    with pytest.raises(StatusError) as caught:
        await team.update(copied)
    assert caught.value.reason == "Conflict"

    updated.status = {"phase": "AtSea"}
    assert (await team.update_status(updated)).status == {"phase": "AtSea"}
    assert (await team.patch_status(updated, {"phase": None, "day": 3})).status == {"day": 3}
    assert await team.scale(Ship, "argo") == 30
    assert await team.scale(Ship, "argo", 40) == 40
    raft = await team.get(Raft, "argo")
    assert raft.spec.crew == 40

    await team.delete(raft)
    assert await team.find(Ship, "argo") is None
    await team.delete(Ship, "argo", missing_ok=True)
    with pytest.raises(StatusError) as caught:
        await team.delete(Ship, "argo")
    assert caught.value.code == 404


async def test_an_apply_owns_what_was_set(client: LocalClient | RemoteClient) -> None:
    """Another manager conflicts on a field that was set and on no other; an object that was read can be applied."""
    fleet, crew = client.cluster("team-a", field_manager="fleet"), client.cluster("team-a", field_manager="crew")
    await fleet.apply(argo())
    manned: dict[str, Any] = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": {"crew": 50}}
    assert (await crew.apply(manned))["spec"] == {"homePort": "Iolcus", "crew": 50}
    with pytest.raises(StatusError) as caught:
        await fleet.apply(argo(crew=5))
    assert caught.value.reason == "Conflict"
    forced = await fleet.apply(argo(crew=5), force=True)
    assert forced.spec.crew == 5
    assert (await fleet.apply(forced)).spec.crew == 5


async def test_objects_are_found_by_kind_and_namespace(client: LocalClient | RemoteClient) -> None:
    """JSON names its kind; an object of a cluster has no namespace, and one of a namespace that names none is in that of the client."""
    team = client.cluster("team-a", namespace="kube-system")
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    made = await team.create(config)
    assert made["metadata"]["namespace"] == "kube-system"
    assert (await team.get(CONFIG_MAPS, "one"))["metadata"]["name"] == "one"
    lost: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sea", "namespace": "lost"}}
    space = await team.create(lost)
    assert (await team.get(NAMESPACES, "sea"))["metadata"]["uid"] == space["metadata"]["uid"]
    with pytest.raises(StatusError) as caught:
        await team.create({"apiVersion": "v1", "kind": "Boat", "metadata": {"name": "one"}})
    assert (caught.value.code, caught.value.message) == (404, 'no matches for kind "Boat" in version "v1"')
    with pytest.raises(StatusError) as caught:
        await team.create({"metadata": {"name": "one"}})
    assert caught.value.code == 400
    with pytest.raises(TypeError):
        await team.create(object())
    with pytest.raises(StatusError) as caught:
        await team.get(GroupVersionResource("", "v1", "boats"), "one")
    assert caught.value.code == 404


async def test_a_deletion_means_the_object_that_was_read(client: LocalClient | RemoteClient) -> None:
    """Another one of the name is a conflict."""
    team = client.cluster("team-a")
    first = await team.create(argo())
    await team.delete(Ship, "argo")
    await team.create(argo())
    with pytest.raises(StatusError) as caught:
        await team.delete(first)
    assert caught.value.code == 409


async def test_all_clusters_are_read_at_once(client: LocalClient | RemoteClient) -> None:
    """A list and a watch without an end show objects with their clusters; writes need one cluster."""
    everywhere = client.cluster(WILDCARD)
    await client.cluster("team-a").create(argo())
    await client.create(TEAM, CONFIG_MAPS, config_map("one", labels={"app": "web"}))
    assert [ship.spec.home_port for ship in await everywhere.list(Ship)] == ["Iolcus"]
    assert [one["metadata"]["name"] async for one in everywhere.iterate(CONFIG_MAPS, label_selector="app=web")] == ["one"]
    async with asyncio.timeout(30), aclosing(everywhere.watch(Ship)) as changes:
        first = await anext(changes)
        assert (first.type, first.cluster, first.obj.spec.crew) == ("ADDED", TEAM, 10)
        await client.cluster("team-b").create(argo(crew=3))
        second = await anext(changes)
        assert (second.type, second.cluster, second.obj.spec.crew) == ("ADDED", OTHER, 3)
        await client.cluster("team-b").delete(second.obj)
        assert (await anext(changes)).type == "DELETED"
    assert not hasattr(everywhere, "create")


def test_a_name_that_no_cluster_has_is_refused() -> None:
    """Before any request."""
    client: Any = object.__new__(LocalClient)
    with pytest.raises(ValueError, match="a/b"):
        client.cluster("a/b")
