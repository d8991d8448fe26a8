"""A service catalog: users order databases by plan. Each is backed by an instance, which only administrators see and change.

::

    python config/samples/library/service_catalog.py 8080 &
    alias admin='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    alias user='kubectl --server http://127.0.0.1:8080/clusters/team-a --as jane'
    user apply -f - <<< '{apiVersion: catalog.example.com/v1, kind: Database, metadata: {name: orders}, spec: {plan: small}}'
    admin patch instances orders --type merge -p '{"spec": {"host": "db-7"}}'
"""

import asyncio
import sys
from typing import Any

import uvicorn

from kcp_py import (
    BackedStorage,
    ComputedResource,
    ControlPlane,
    Credentials,
    GroupVersionResource,
    Options,
    RequestInfo,
    StoredResource,
    UserInfo,
    WriteRequest,
    fielderrors,
)

GIGABYTES = {"small": 10, "large": 100}
BACKING = GroupVersionResource("admin.example.com", "v1", "instances")


class Databases(BackedStorage):
    """Databases are instances whose size is a plan and whose host is an address."""

    def to_facing(self, backing: dict[str, Any]) -> dict[str, Any]:
        spec = backing["spec"]
        plan = next((plan for plan, size in GIGABYTES.items() if size == spec["gigabytes"]), "custom")
        return {"spec": {"plan": plan}, "status": {"address": f"{spec['host']}:5432"} if "host" in spec else {}}

    def to_backing(self, facing: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        spec, plan = old["spec"] if old else {}, facing["spec"]["plan"]
        return {"spec": spec if plan == "custom" else {**spec, "gigabytes": GIGABYTES[plan]}}

    async def validate(self, request: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> list[fielderrors.FieldError]:
        plan, before = obj["spec"]["plan"], old["spec"]["plan"] if old else ""
        allowed = plan == before or (plan in GIGABYTES and before != "large")
        return [] if allowed else [fielderrors.forbidden("spec.plan", f"a {before or 'new'} database cannot become {plan}")]


def objects(**properties: Any) -> dict[str, Any]:
    """The schema of objects whose `spec` has these properties."""
    return {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", **properties}}}


text = {"type": "string"}
instances = StoredResource(
    group="admin.example.com",
    version="v1",
    resource="instances",
    kind="Instance",
    schema=objects(properties={"gigabytes": {"type": "integer", "maximum": 1000}, "host": text}, required=["gigabytes"]),
)
database = objects(properties={"plan": {**text, "enum": [*GIGABYTES, "custom"]}}, required=["plan"])
database["properties"]["status"] = {"type": "object", "properties": {"address": text}}
databases = ComputedResource(
    group="catalog.example.com",
    version="v1",
    resource="databases",
    kind="Database",
    schema=database,
    rest=Databases(lambda: control_plane.client, BACKING, fields={"spec.gigabytes": "spec.plan"}),
    columns=[{**text, "name": name, "jsonPath": path} for name, path in (("Plan", ".spec.plan"), ("Address", ".status.address"))],
)
control_plane = ControlPlane(Options(storage="memory"), apis=[instances, databases])


@control_plane.authenticator
async def everyone(_credentials: Credentials) -> UserInfo:
    """Each request is that of an administrator, who may act as a user, so the server must listen on this machine only."""
    return UserInfo("root", groups=("system:masters",))


@control_plane.authorizer
async def catalog_for_all(_user: UserInfo, _cluster: object, request: RequestInfo) -> bool | None:
    """Everyone may use the catalog, and discovery."""
    return True if request.group == "catalog.example.com" or not request.is_resource else None


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
