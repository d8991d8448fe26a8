"""An API group with a stored type, in one module: its schema, its rules, its columns, and a control plane that serves it.

::

    python config/samples/own_api_group.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k create -f - <<< '{"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": {"home": "Iolcus"}}'
    k scale ship argo --replicas 50
    k get ships
    k patch ship argo --type merge -p '{"spec": {"home": "Corinth"}}'     # refused by the rules
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import uvicorn

from kcp_py import ControlPlane, Credentials, Options, StoredResource, Strategy, UserInfo, fielderrors

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "description": "Ship is a ship of a fleet.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["home"],
            "properties": {
                "home": {"type": "string", "minLength": 1, "description": "Home port."},
                "crew": {"type": "integer", "format": "int32", "minimum": 1, "default": 10, "description": "Number of rowers."},
            },
            "x-kubernetes-validations": [{"rule": "self.crew % 2 == 0", "message": "rowers sit in pairs"}],
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string", "enum": ["Docked", "AtSea"]},
                "crew": {"type": "integer", "format": "int32"},
            },
        },
    },
}


class ShipRules(Strategy):
    """What the schema cannot say: where a ship begins, and that it keeps its home port."""

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Docked", "crew": 0}

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[fielderrors.FieldError]:
        home = obj["spec"]["home"]
        return [] if home == old["spec"]["home"] else [fielderrors.invalid("spec.home", home, "a ship keeps its home port")]

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        return ["a crew of more than 100 needs a second deck"] if obj["spec"]["crew"] > 100 else []


def install() -> list[StoredResource]:
    """The resources of the group, for `apis=` of a control plane."""
    return [
        StoredResource(
            group="fleet.example.com",
            version="v1",
            resource="ships",
            kind="Ship",
            schema=SCHEMA,
            strategy=ShipRules(),
            columns=[
                {"name": "Home", "type": "string", "jsonPath": ".spec.home"},
                {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"},
                {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            ],
            short_names=["sh"],
            selectable_fields=[".spec.home"],
            status=True,
            scale={"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"},
        )
    ]


class Everyone:
    """Authenticates each request as an administrator, so the server must listen on this machine only."""

    async def authenticate(self, credentials: Credentials) -> UserInfo:
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with ControlPlane(Options(storage="memory"), authenticators=[Everyone()], apis=install()) as control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
