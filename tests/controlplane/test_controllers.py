"""Controllers of the program that embeds a control plane."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from kcp_py import Client, ControllerContext, ControllerSource, ControlPlane, GroupVersionResource, Key, Later, Name, Options, errors

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
TEAM, OTHER = Name("team-a"), Name("team-b")


class Greeter:
    """Gives every ConfigMap a greeting, at its second look."""

    name = "greeter"
    per_cluster = 4
    sources = (ControllerSource(MAPS),)

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._seen: set[Key] = set()

    async def reconcile(self, key: Key) -> int | Later:
        if key not in self._seen:
            self._seen.add(key)
            return Later(0.001)
        try:
            found = await self._client.get(key.cluster, MAPS, key.namespace, key.name)
        except errors.StatusError as error:
            if error.code != 404:
                raise
            return 0
        if "greeting" not in (found.get("data") or {}):
            await self._client.patch(key.cluster, MAPS, key.namespace, key.name, document={"data": {"greeting": "hello"}})
        return 0


class Impostor(Greeter):
    name = "namespace-controller"


class FormerImpostor(Greeter):
    name = "namespaces"


async def greeted(client: Client, cluster: Name, name: str) -> dict[str, Any]:
    """Create a ConfigMap and wait for its greeting."""
    made = await client.create(cluster, MAPS, {"metadata": {"name": name, "namespace": "default"}})
    version = made["metadata"]["resourceVersion"]
    async with asyncio.timeout(60), aclosing(client.watch(cluster, MAPS, resource_version=version)) as events:
        async for event in events:
            if event.obj["metadata"]["name"] == name and event.obj.get("data"):
                return event.obj
    raise AssertionError("the watch has ended")


async def test_a_controller_runs_beside_those_of_the_server() -> None:
    """In every cluster, with the namespace of the object in its key."""
    options = Options(storage="memory", namespace_deletion_grace=0)
    async with ControlPlane(options, controllers=[Greeter]) as control_plane:
        for cluster in (TEAM, OTHER):
            assert (await greeted(control_plane.client, cluster, "one"))["data"] == {"greeting": "hello"}
        client = control_plane.client
        version = (await client.create(TEAM, NAMESPACES, {"metadata": {"name": "shop"}}))["metadata"]["resourceVersion"]
        async with asyncio.timeout(60), aclosing(client.watch(TEAM, NAMESPACES, resource_version=version)) as events:
            await client.delete(TEAM, NAMESPACES, "", "shop")
            async for event in events:
                if event.type == "DELETED":
                    break


async def test_a_controller_runs_instead_of_those_of_the_server() -> None:
    """Where it is the only one that is selected."""
    async with ControlPlane(Options(storage="memory", controllers=("greeter",)), controllers=[Greeter]) as control_plane:
        client = control_plane.client
        await client.create(TEAM, NAMESPACES, {"metadata": {"name": "shop"}})
        await client.delete(TEAM, NAMESPACES, "", "shop")
        await greeted(client, TEAM, "one")
        await greeted(client, TEAM, "two")
        assert (await client.get(TEAM, NAMESPACES, "", "shop"))["status"]["phase"] == "Terminating"


async def test_a_controller_runs_under_election() -> None:
    """The server becomes the leader, and its Lease says so."""
    async with ControlPlane(Options(storage="memory", leader_elect="true"), controllers=[Greeter]) as control_plane:
        assert (await greeted(control_plane.client, TEAM, "one"))["data"] == {"greeting": "hello"}
        lease = GroupVersionResource("coordination.k8s.io", "v1", "leases")
        held = await control_plane.client.get(Name("system:admin"), lease, "kube-system", "kcp-py-controllers")
        assert held["spec"]["holderIdentity"]


@pytest.mark.parametrize(
    ("options", "controllers", "message"),
    [
        (Options(storage="memory"), [Impostor], "two controllers are named namespace-controller"),
        (Options(storage="memory"), [FormerImpostor], "two controllers are named namespaces"),
        (Options(storage="memory"), [Greeter, Greeter], "two controllers are named greeter"),
        (Options(storage="memory", controllers=("*", "-greter")), [Greeter], "unknown controllers: greter; there are .*, greeter"),
    ],
    ids=["name of the server", "alias of the server", "same name", "unknown name"],
)
async def test_names_are_checked(options: Options, controllers: list[type[Greeter]], message: str) -> None:
    """When the context is entered."""
    with pytest.raises(ValueError, match=message):
        async with ControlPlane(options, controllers=controllers):
            pass
