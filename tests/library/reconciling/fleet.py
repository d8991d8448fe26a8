"""A control plane with ships in two clusters, and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kcp_py.apimachinery.kinds import CRDS, GroupVersionResource
from kcp_py.client import LocalClient
from kcp_py.client.clusterclient import ClusterClient
from kcp_py.client.remote import RemoteClient
from kcp_py.client.transport import Transport
from kcp_py.controlplane import ControlPlane
from kcp_py.library.reconciling import Controllers, run_controllers
from kcp_py.testing.client_objects import OTHER, TEAM
from tests.client.served import options_of, served
from tests.client.ships import SHIPS, Meta, Ship, ShipSpec, ship_crd

WAYS = ("in process", "apart")
EVENTS = GroupVersionResource("", "v1", "events")


def ship(name: str = "argo", **more: Any) -> Ship:
    """A ship."""
    return Ship(metadata=Meta(name=name, **more), spec=ShipSpec(homePort="Iolcus"))


@asynccontextmanager
async def reconciled(way: str, directory: Path, controllers: Controllers) -> AsyncIterator[LocalClient]:
    """A control plane whose ships functions look at: as a part of it, or over HTTP; and its client."""
    own = controllers if way == WAYS[0] else ()
    async with ControlPlane(options_of(directory, controllers=("*",)), controllers=own) as control_plane:
        client = control_plane.client
        for cluster in (TEAM, OTHER):
            await client.create(cluster, CRDS, ship_crd())
            while await client.find_resource(cluster, SHIPS.group_resource) is None:
                await asyncio.sleep(0)
        if way == WAYS[0]:
            yield client
            return
        stop = asyncio.Event()
        async with served(control_plane) as context, RemoteClient(Transport(context)) as remote:
            running = asyncio.create_task(run_controllers(remote, controllers, stop=stop))
            try:
                yield client
            finally:
                stop.set()
                await running


async def until(client: ClusterClient, kind: Any, holds: Any, name: str = "argo") -> Any:
    """Wait until an object is as it should be; None while it does not exist."""
    async with asyncio.timeout(60):
        found = await client.find(kind, name)
        if holds(found):
            return found
        async for change in client.watch(kind):
            found = None if change.type == "DELETED" else change.obj
            if (change.obj["metadata"]["name"] if isinstance(change.obj, dict) else change.obj.metadata.name) == name and holds(found):
                return found
    raise AssertionError
