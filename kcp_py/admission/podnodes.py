"""`Nodes`: what plugins for pods on nodes read of the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.names import dns_subdomain_problems
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.storage.contract import Storage

NODES: Final = GroupResource("", "nodes")


class Nodes:
    """Reads nodes by name. Few pods name one, so nothing is kept."""

    def __init__(self, storage: Storage, tables: ResourceTables) -> None:
        """Read from a store. `tables` find the nodes of a cluster."""
        self._storage = storage
        self._tables = tables

    async def are_served(self, cluster: Name) -> bool:
        """Whether a cluster serves the nodes of Kubernetes.

        Raises:
            StorageError: the store cannot be read.
        """
        nodes = await self._tables.find_resource(cluster, NODES)
        return nodes is not None and nodes.typed

    async def get(self, cluster: Name, name: str) -> Mapping[str, Any] | None:
        """A node; None where there is none of this name.

        Raises:
            StorageError: the store cannot be read.
        """
        nodes = await self._tables.find_resource(cluster, NODES)
        if nodes is None or not nodes.typed or dns_subdomain_problems(name):
            return None
        item = await self._storage.get(nodes.keys.object_key(cluster, "", name))
        return None if item is None else orjson.loads(item.value)
