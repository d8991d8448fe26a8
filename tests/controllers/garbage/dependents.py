"""Owners and dependents for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import Name
from tests.client.registry import CONFIG_MAPS, Registry, config_map


def reference(owner: Mapping[str, Any], *, blocks: bool | None = None) -> dict[str, Any]:
    """An owner reference to an object."""
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return found if blocks is None else {**found, "blockOwnerDeletion": blocks}


async def add(registry: Registry, cluster: Name, name: str, *owners: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    """Create a config map with owner references."""
    if owners:
        metadata["ownerReferences"] = list(owners)
    return await registry.client.create(cluster, CONFIG_MAPS, config_map(name, **metadata))


async def exists(
    registry: Registry, cluster: Name, name: str, namespace: str = "default", resource: GroupVersionResource = CONFIG_MAPS
) -> bool:
    try:
        await registry.client.get(cluster, resource, namespace, name)
    except StatusError as error:
        if error.code != 404:
            raise
        return False
    return True


async def owners_of(registry: Registry, cluster: Name, name: str) -> list[str]:
    """The names of an object's owners."""
    metadata = (await registry.client.get(cluster, CONFIG_MAPS, "default", name))["metadata"]
    return [owner["name"] for owner in metadata.get("ownerReferences", ())]


async def settle(registry: Registry, cluster: Name) -> None:
    """Wait until the garbage collector has seen and done all that was written before."""
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"}
    await add(registry, cluster, "settled", absent)
    await registry.until_gone(cluster, CONFIG_MAPS, "default", "settled")
