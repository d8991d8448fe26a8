"""A control plane inside a program, with a resource that no store holds and a rule of its own about config maps.

Start it with `python config/samples/embedded_server.py 8080`. Each path below /clusters/ is a logical cluster:
`kubectl --server http://127.0.0.1:8080/clusters/team-a get planets`.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn

from kcp_py import AdmissionPlugin, Attributes, ComputedResource, ControlPlane, Options, ReadRequest, RestStorage, UserInfo, errors

MOONS = {"mercury": 0, "earth": 1, "mars": 2}


class Planets(RestStorage):
    async def list(self, request: ReadRequest) -> Sequence[dict[str, Any]]:
        return [{"metadata": {"name": name}, "spec": {"moons": moons}} for name, moons in MOONS.items()]

    async def get(self, request: ReadRequest) -> dict[str, Any]:
        if (name := request.target.name) not in MOONS:
            raise errors.not_found(request.target.resource.group_resource, name)
        return {"metadata": {"name": name}, "spec": {"moons": MOONS[name]}}


class NoSecrets(AdmissionPlugin):
    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.resource == "configmaps" and "secret" in attributes.name:
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, f"{attributes.user.name} has to use a Secret")


class Everyone:  # is an administrator; only this machine reaches the server
    async def authenticate(self, credentials: object) -> UserInfo:
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    columns = [{"name": "Moons", "type": "integer", "jsonPath": ".spec.moons"}]
    planets = ComputedResource(
        group="example.com", version="v1", resource="planets", kind="Planet", rest=Planets(), namespaced=False, columns=columns
    )
    async with ControlPlane(Options(storage="memory"), authenticators=[Everyone()], admission=[NoSecrets()], apis=[planets]) as server:
        await uvicorn.Server(uvicorn.Config(server.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
