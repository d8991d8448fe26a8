"""A control plane without controllers of its own, seen in process and over HTTP, for controllers of kinds of Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client, Tap
from kcp_py.client.remote import RemoteClient
from kcp_py.client.remotetap import RemoteTap
from kcp_py.client.transport import Transport
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from tests.client.served import options_of, served

TEAM, OTHER = Name("team-a"), Name("team-b")
WAYS = ("in process", "over HTTP")


@dataclass
class Plane:
    """A control plane, and what controllers get of it."""

    control_plane: ControlPlane
    client: Client
    tap: Tap
    supervisor: Supervisor

    async def find(self, cluster: Name, resource: GroupVersionResource, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """An object; None where there is none."""
        try:
            return await self.control_plane.client.get(cluster, resource, namespace, name)
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def names(self, cluster: Name, resource: GroupVersionResource) -> set[str]:
        """The names of all objects of a cluster."""
        found = await self.control_plane.client.list(cluster, resource)
        return {item["metadata"]["name"] for item in found.items}

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something that comes true with some write."""
        fanout = self.control_plane.backend.fanout
        async with asyncio.timeout(120):
            while True:
                revision = await self.control_plane.backend.access.storage.revision()
                if await holds():
                    return
                await fanout.reached(revision + 1)


@asynccontextmanager
async def open_plane(way: str, directory: Path, *kinds: str) -> AsyncIterator[Plane]:
    """A control plane with kinds of Kubernetes in every cluster."""
    options = options_of(directory, controllers=(), builtin_kinds=kinds)
    async with ControlPlane(options) as control_plane:
        if way == WAYS[0]:
            async with Supervisor(lambda *_: None) as supervisor:
                yield Plane(control_plane, control_plane.client, control_plane.tap, supervisor)
            return
        async with (
            served(control_plane) as context,
            RemoteClient(Transport(context)) as client,
            Supervisor(lambda *_: None) as supervisor,
        ):
            tap = RemoteTap(client.transport)
            supervisor.start("tap", tap.run)
            yield Plane(control_plane, client, tap, supervisor)
