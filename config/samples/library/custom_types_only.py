"""A server of one type of its own: no definitions, no built-in resources, "code -> generic registry -> storage".

Start it with `python config/samples/library/custom_types_only.py 8080`. Each path below /clusters/ is a logical cluster:
`kubectl --server http://127.0.0.1:8080/clusters/team-a api-resources`.
"""

import asyncio
import sys

import uvicorn

from kcp_py import ControlPlane, Credentials, Options, StoredResource, UserInfo

planets = StoredResource(
    group="example.com",
    version="v1",
    resource="planets",
    kind="Planet",
    namespaced=False,
    schema={
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {"type": "object", "properties": {"moons": {"type": "integer", "minimum": 0, "default": 0}}}},
    },
    columns=[{"name": "Moons", "type": "integer", "jsonPath": ".spec.moons"}],
)


class Everyone:
    """Authenticates each request as an administrator, so the server must listen on this machine only."""

    async def authenticate(self, credentials: Credentials) -> UserInfo:
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with ControlPlane(Options(storage="memory"), batteries=(), authenticators=[Everyone()], apis=[planets]) as control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
