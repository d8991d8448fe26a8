"""A reconcile function of five lines: each ship has a log book, in whatever logical cluster it is.

As a part of a control plane: `python config/samples/library/log_books.py 8080`. In a process of its own, for a server that has the CRD:
`kcp-py controllers --app config/samples/library/log_books.py --lease root/default/log-books`.
"""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import uvicorn
from pydantic import BaseModel

from kcp_py import (
    ClusterClient,
    Controllers,
    ControlPlane,
    Credentials,
    GroupVersionResource,
    Options,
    Recorder,
    StoredResource,
    UserInfo,
    owned_by,
)

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


class ShipSpec(BaseModel):
    home: str


class Ship(BaseModel):
    __resource__ = SimpleNamespace(group="fleet.example.com", version="v1", plural="ships", kind="Ship", namespaced=True)

    metadata: dict[str, Any]
    spec: ShipSpec


controllers = Controllers()


@controllers.reconcile(Ship, owns=[CONFIG_MAPS])
async def log_books(ship: Ship, client: ClusterClient, recorder: Recorder) -> None:
    book = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"log-of-{ship.metadata['name']}"},
        "data": {"home": ship.spec.home},
    }
    await client.apply(owned_by(ship, book), force=True)
    recorder.normal("Written", "the log book is up to date")


SHIPS = StoredResource(
    group="fleet.example.com",
    version="v1",
    resource="ships",
    kind="Ship",
    schema={
        "type": "object",
        "properties": {"spec": {"type": "object", "required": ["home"], "properties": {"home": {"type": "string"}}}},
    },
)


class Everyone:
    """Authenticates each request as an administrator, so the server must listen on this machine only."""

    async def authenticate(self, credentials: Credentials) -> UserInfo:
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    async with ControlPlane(
        Options(storage="memory"), authenticators=[Everyone()], apis=[SHIPS], controllers=list(controllers)
    ) as control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
