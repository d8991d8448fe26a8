"""A server whose moons are served by a class that keeps them in memory. `python server_of_moons.py PORT` starts it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from copy import deepcopy
from typing import Any

import uvicorn

from kcp_py import (
    ComputedResource,
    ControlPlane,
    Credentials,
    ObjectEvent,
    Options,
    ReadRequest,
    RestStorage,
    UserInfo,
    WriteRequest,
    errors,
)

Object = dict[str, Any]


class Moons(RestStorage):
    """The moons of each logical cluster: one to begin with."""

    def __init__(self) -> None:
        self._moons: dict[str, dict[str, Object]] = {}
        self._watches: dict[asyncio.Queue[ObjectEvent], str] = {}
        self._version = 0

    async def get(self, request: ReadRequest) -> Object:
        moons = self._of(request)
        if request.target.name not in moons:
            raise errors.not_found(request.target.resource.group_resource, request.target.name)
        return deepcopy(moons[request.target.name])

    async def list(self, request: ReadRequest) -> Sequence[Object]:
        return deepcopy(list(self._of(request).values()))

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        changes: asyncio.Queue[ObjectEvent] = asyncio.Queue()
        self._watches[changes] = request.target.cluster_state.name
        try:
            for moon in await self.list(request):
                yield ObjectEvent("ADDED", moon)
            while True:
                yield await changes.get()
        finally:
            del self._watches[changes]

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        if obj["metadata"]["name"] in self._of(request):
            raise errors.already_exists(request.target.resource.group_resource, obj["metadata"]["name"])
        return self._keep(request, obj, "ADDED")

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        present = self._of(request)[request.target.name]["metadata"]["resourceVersion"]
        if obj["metadata"].get("resourceVersion", present) != present:
            raise errors.conflict(request.target.resource.group_resource, request.target.name, "the moon has changed")
        return self._keep(request, obj, "MODIFIED")

    def _of(self, request: ReadRequest | WriteRequest) -> dict[str, Object]:
        io: Object = {"metadata": {"name": "io", "resourceVersion": "0"}, "spec": {"color": "yellow"}}
        return self._moons.setdefault(request.target.cluster_state.name, {"io": io})

    def _keep(self, request: WriteRequest, obj: Object, change: str) -> Object:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._of(request)[obj["metadata"]["name"]] = deepcopy(obj)
        for changes, cluster in self._watches.items():
            if cluster == request.target.cluster_state.name:
                changes.put_nowait(ObjectEvent(change, deepcopy(obj)))
        return obj


class Everyone:
    """Authenticates every caller as an administrator. Only this machine reaches the server."""

    async def authenticate(self, credentials: Credentials) -> UserInfo:
        del credentials
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until a signal."""
    moons = ComputedResource(
        group="example.com",
        version="v1",
        resource="moons",
        kind="Moon",
        rest=Moons(),
        namespaced=False,
        columns=[{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
    )
    async with ControlPlane(Options(storage="memory"), authenticators=[Everyone()], apis=[moons]) as server:
        await uvicorn.Server(uvicorn.Config(server.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
