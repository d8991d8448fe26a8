"""Widgets: the custom resource that tests define, fill and change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.server.handlers.conftest import Api, established, make_crd

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"/clusters/a{CRDS}/widgets.example.com"
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
ALL_WIDGETS = "/clusters/*/apis/example.com/v1/widgets"
MERGE = {"Content-Type": "application/merge-patch+json"}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer", "default": 1}}}},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"strict": {"type": "object", "properties": {"known": {"type": "string"}}}},
                },
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "integer", "maximum": 3}}},
    },
}


def spec_schema(**properties: Any) -> dict[str, Any]:
    """A schema whose spec has these properties."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


async def install(api: Api, crd: Mapping[str, Any] | None = None, cluster: str = "a") -> dict[str, Any]:
    """Create a CRD and wait until it is established."""
    created: dict[str, Any] = await api.ok("POST", f"/clusters/{cluster}{CRDS}", crd or make_crd(schema=SCHEMA))
    await established(api, cluster, created["metadata"]["name"])
    return created


async def change_schema(api: Api, schema: Mapping[str, Any], path: str = CRD, version: int = 0) -> dict[str, Any]:
    """Give a version of a CRD another schema."""
    operations = [{"op": "replace", "path": f"/spec/versions/{version}/schema/openAPIV3Schema", "value": schema}]
    changed: dict[str, Any] = await api.ok("PATCH", path, operations, headers={"Content-Type": "application/json-patch+json"})
    return changed


async def gone(api: Api, path: str) -> None:
    """Wait, without a clock, until there is nothing at a path."""
    async with asyncio.timeout(30):
        while (await api("GET", path)).status_code != 404:
            await asyncio.sleep(0)


def two_versions(storage: str = "v1") -> dict[str, Any]:
    """A CRD with v1 and v1beta1 that differ in their schemas, and no conversion."""
    crd = make_crd(schema=spec_schema(size={"type": "integer"}, new={"type": "string", "default": "n"}))
    (first,) = crd["spec"]["versions"]
    old = spec_schema(size={"type": "integer"}, old={"type": "string", "default": "o"})
    second = {**first, "name": "v1beta1", "schema": {"openAPIV3Schema": old}}
    for version in (first, second):
        version["storage"] = version["name"] == storage
    crd["spec"]["versions"] = [first, second]
    return crd
