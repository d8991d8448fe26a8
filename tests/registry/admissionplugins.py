"""Plugins of tests, and servers that have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from tests.server.handlers.conftest import Api, established, make_crd, options

CLUSTER = Name("a")
CONFIG_MAPS = GroupResource("", "configmaps")
MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
NAMESPACES = "/clusters/a/api/v1/namespaces"


class Recorder(AdmissionPlugin):
    """Notes its writes, and refuses objects named `refused`."""

    name = "Recorder"
    conforming = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str]] = []
        self.attributes: list[Attributes] = []

    async def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource.resource
        self.seen.append((attributes.operation, resource, attributes.name, attributes.user.name))
        self.attributes.append(attributes)
        attributes.audit_annotations["recorder.test/seen"] = attributes.operation
        if attributes.name == "refused" and attributes.operation == "DELETE":
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "not this one")

    def of(self, operation: Operation, resource: str) -> list[tuple[str, str]]:
        """Name and user of each write."""
        return [(name, user) for seen, kind, name, user in self.seen if (seen, kind) == (operation, resource)]


@asynccontextmanager
async def api_with(tmp_path: Path, *plugins: AdmissionPlugin) -> AsyncIterator[Api]:
    control_plane = ControlPlane(options(tmp_path, namespace_deletion_grace=0), admission=plugins)
    async with control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def define(api: Api, properties: Mapping[str, Any] | None = None) -> None:
    """Establish widgets whose `spec` has these properties."""
    spec = {"type": "object", "properties": dict(properties or {})}
    crd = make_crd(schema={"type": "object", "properties": {"spec": spec}})
    await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    await established(api, "a")
