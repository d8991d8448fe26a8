"""Stored config maps, written as the registry would, and the states of their clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import Served
from kcp_py.registry.store import Access
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.structural.nodes import Node
from kcp_py.storage.contract import Delete, Put

RESOURCES = {resource.resource: resource for resource in builtin_resources("/registry") if not resource.group}
CONFIG_MAPS = Served(RESOURCES["configmaps"])
NAMESPACES = Served(RESOURCES["namespaces"])


def state_of(cluster: str, created_revision: int = 0) -> ClusterState:
    return ClusterState(Name(cluster), f"uid-{cluster}", created_revision, "2024-01-01T00:00:00Z")


A = state_of("a")
B = state_of("b")


def config_map(name: str, namespace: str = "default", *, metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **(metadata or {})}, **fields}


def key_of(name: str, namespace: str = "default", cluster: str = "a") -> str:
    return CONFIG_MAPS.resource.keys.object_key(Name(cluster), namespace, name)


def with_schemas(served: Served, schema: CompiledSchema, storage_schema: CompiledSchema | None = None, fresh_since: int = 0) -> Served:
    """This resource with other schemas."""
    resource = replace(served.resource, schema=schema, storage_schema=storage_schema or schema)
    return Served(resource, fresh_since)


class Shelf:
    """A store of config maps."""

    def __init__(self, access: Access) -> None:
        self.access = access

    async def put(self, name: str, namespace: str = "default", cluster: str = "a", **fields: Any) -> int:
        """Store one; the revision."""
        value = encode_stored(config_map(name, namespace, **fields))
        return await self.access.storage.transact([], [Put(key_of(name, namespace, cluster), value)])

    async def put_all(self, *names: str, namespace: str = "default", cluster: str = "a") -> int:
        """Store several at once; the revision."""
        puts = [Put(key_of(name, namespace, cluster), encode_stored(config_map(name, namespace))) for name in names]
        return await self.access.storage.transact([], puts)

    async def delete(self, name: str, namespace: str = "default", cluster: str = "a") -> int:
        return await self.access.storage.transact([], [Delete(key_of(name, namespace, cluster))])


class Schema(CompiledSchema):
    """Drops `data.old` and sets `data.new`, so that it is seen where it was applied."""

    def __init__(self, value: str) -> None:
        self._value = value

    def prune(self, obj: dict[str, Any]) -> list[str]:
        obj.get("data", {}).pop("old", None)
        return []

    def strict_errors(self, document: Any) -> list[str]:  # noqa: ARG002
        return []

    def type_error(self, obj: dict[str, Any]) -> FieldError | None:  # noqa: ARG002
        return None

    def default(self, obj: dict[str, Any], limit: int = 0) -> None:  # noqa: ARG002
        obj.setdefault("data", {}).setdefault("new", self._value)

    def complete(self, obj: dict[str, Any]) -> None:
        """It has no fields that are always written."""

    def restore_defaults(self, obj: dict[str, Any]) -> None:
        """No field of its root has a default."""

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:  # noqa: ARG002
        return []

    def validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:  # noqa: ARG002
        return []

    @property
    def root(self) -> Node:
        return Node(properties={})
