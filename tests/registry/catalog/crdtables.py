"""Lookups in the tables of clusters with CRDs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.table import ResourceTable
from kcp_py.registry.resource import Served, ServedResource
from tests.client.registry import ROOT, Registry, make_crd
from tests.registry.conftest import A, stored

WIDGET_PREFIX = f"{ROOT}/example.com/widgets/customresources/"


async def widgets(registry: Registry, cluster: Name = A, version: str = "v1") -> Served | None:
    return (await registry.tables.get(cluster)).find("example.com", version, "widgets")


def resources(table: ResourceTable) -> list[ServedResource]:
    """What CRDs define, in the order of the table."""
    return [served.resource for served in table.served.values()]


def gadgets() -> dict[str, Any]:
    return stored(make_crd("gadgets", kind="Gadget"))


async def delivered(registry: Registry, obj: Mapping[str, Any]) -> None:
    """Wait until the feed has delivered a write. A table that is loaded before then may be dropped when its event arrives."""
    await registry.fanout.reached(int(obj["metadata"]["resourceVersion"]))
