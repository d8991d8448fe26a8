"""`ClusterObjects`: other objects of the cluster of a request, whichever source serves their kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import copy
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionChain
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served
from kcp_py.registry.store import Access
from kcp_py.registry.store.read import find, load, load_one
from kcp_py.storage.contract import KeyValue
from kcp_py.storage.keys import InvalidSegmentError

_PAGE: Final = 500


class Found(NamedTuple):
    """An object as it is stored, and decoded in the served version."""

    item: KeyValue
    obj: dict[str, Any]


class ClusterObjects:
    """Reads objects of a cluster, and writes them as the server itself: admission has seen the request for the subresource."""

    def __init__(self, access: Access) -> None:
        """Use a store. `connect` has to be called before the first request."""
        self.access: Final = access
        self._tables: ResourceTables | None = None

    def connect(self, tables: ResourceTables) -> None:
        """Say what the clusters serve."""
        self._tables = tables

    @property
    def unadmitted(self) -> Access:
        """The store for writes that no plugin sees, as upstream's subresources write."""
        access = copy(self.access)
        access.admission = AdmissionChain()
        return access

    async def served(self, state: ClusterState, group: str, version: str, plural: str) -> Served | None:
        """A resource as the cluster serves it; None where it does not."""
        assert self._tables is not None, "connected while the server starts"
        return self._tables.builtin(group, version, plural) or (await self._tables.get(state.name)).find(group, version, plural)

    async def get(self, state: ClusterState, served: Served, namespace: str, name: str) -> Found:
        """One object.

        Raises:
            StatusError: 404.
        """
        try:
            item = await find(self.access, state, served, namespace, name)
        except InvalidSegmentError:
            item = None
        if item is None:
            raise errors.not_found(served.resource.group_resource, name)
        return Found(item, await load_one(served, item))

    async def find(self, state: ClusterState, resource: GroupResource, namespace: str, name: str) -> Found:
        """One object of a resource in its version `v1`.

        Raises:
            StatusError: 404, also where the cluster does not serve the resource.
        """
        served = await self.served(state, resource.group, "v1", resource.resource)
        if served is None:
            raise errors.not_found(resource, name)
        return await self.get(state, served, namespace, name)

    async def each(self, state: ClusterState, served: Served, namespace: str) -> AsyncIterator[Found]:
        """The stored objects of a namespace."""
        start, prefix = "", served.resource.keys.namespace_prefix(state.name, namespace)
        while True:
            page = await self.access.storage.range(prefix, start=start, limit=_PAGE)
            for item, obj in zip(page.items, await load(served, page.items), strict=True):
                yield Found(item, obj)
            if not page.more:
                return
            start = page.items[-1].key + "\x00"
