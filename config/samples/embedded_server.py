"""A control plane inside a program, with a resource that no store holds and a rule of its own about config maps.

::

    python config/samples/embedded_server.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k get planets
    k create configmap secret-plans     # refused by the rule
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import uvicorn

from kcp_py import AdmissionPlugin, Attributes, ComputedResource, ControlPlane, Options, ReadRequest, RestStorage, UserInfo, errors

PLANETS = {"mercury": 0, "earth": 1, "mars": 2}


class Planets(RestStorage):
    """Served at /apis/example.com/v1/planets of every logical cluster."""

    async def list(self, request: ReadRequest) -> Sequence[dict[str, Any]]:
        return [{"metadata": {"name": name}, "spec": {"moons": moons}} for name, moons in PLANETS.items()]

    async def get(self, request: ReadRequest) -> dict[str, Any]:
        if request.target.name not in PLANETS:
            raise errors.not_found(request.target.resource.group_resource, request.target.name)
        return {"metadata": {"name": request.target.name}, "spec": {"moons": PLANETS[request.target.name]}}


class NoSecrets(AdmissionPlugin):
    """Refuses config maps whose name says that they should be secrets."""

    name = "NoSecrets"

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.resource == "configmaps" and "secret" in attributes.name:
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, f"{attributes.user.name} has to use a Secret")


class Everyone:
    """Takes each caller for an administrator: the server listens on this machine alone."""

    async def authenticate(self, headers: Mapping[bytes, bytes], peer_certificate_der: bytes | None) -> UserInfo:
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until interrupted."""
    columns = [{"name": "Moons", "type": "integer", "jsonPath": ".spec.moons"}]
    planets = ComputedResource(
        group="example.com", version="v1", resource="planets", kind="Planet", rest=Planets(), namespaced=False, columns=columns
    )
    options = Options(storage="memory")
    async with ControlPlane(options, authenticators=[Everyone()], admission=[NoSecrets()], apis=[planets]) as control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
