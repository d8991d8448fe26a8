"""Objects for the tests of clients."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kcp_py.apimachinery.kinds import CRDS, GroupVersionResource
from kcp_py.client.contract import Client
from kcp_py.logicalcluster import Name

TEAM: Final = Name("team-a")
OTHER: Final = Name("team-b")
CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
WIDGETS: Final = GroupVersionResource("example.com", "v1", "widgets")


def config_map(name: str, *, labels: dict[str, str] | None = None, data: str = "b", **metadata: Any) -> dict[str, Any]:
    """A ConfigMap in the namespace `default`."""
    more = {"labels": labels} if labels else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **more, **metadata},
        "data": {"a": data},
    }


def widget(name: str, **spec: Any) -> dict[str, Any]:
    """A Widget in the namespace `default`."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def widget_crd() -> dict[str, Any]:
    """A CRD with a status, a scale and a selectable field."""
    number = {"type": "integer"}
    properties = {
        "spec": {"type": "object", "properties": {"size": number, "color": {"type": "string", "default": "red"}}},
        "status": {"type": "object", "properties": {"size": number}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version],
        },
    }


async def serve_widgets(client: Client, cluster: Name) -> None:
    """Create the CRD and wait until it is served."""
    made = await client.create(cluster, CRDS, widget_crd())
    version = made["metadata"]["resourceVersion"]
    events = client.watch(cluster, CRDS, resource_version=version)
    try:
        async with asyncio.timeout(60):
            while not _is_established(made):
                made = (await anext(events)).obj
    finally:
        await events.aclose()


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
