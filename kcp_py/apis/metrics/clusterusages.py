"""`clusterusages`: how many objects a logical cluster holds, and how many bytes they take. Counted at each request, never stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final
from weakref import WeakValueDictionary

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.rest.storage import Object, ReadRequest, RestStorage
from kcp_py.storage.contract import Storage

NAME: Final = "cluster"
"""The one object of each cluster, named as its LogicalCluster."""
_PAGE: Final = 500
"""Objects that are read at once."""

_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "format": "int64", "minimum": 0}
_OBJECTS: Final = {**_COUNT, "description": "Number of stored objects."}
_BYTES: Final = {**_COUNT, "description": "Bytes of their stored form, compact JSON in the storage version."}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "ClusterUsage is what a logical cluster stores at the moment. It is counted when it is read.",
    "properties": {
        "usage": {
            "type": "object",
            "description": "What is stored.",
            "properties": {
                "objects": _OBJECTS,
                "bytes": _BYTES,
                "resources": {
                    "type": "array",
                    "description": "The same by resource, most bytes first. Resources without objects are left out.",
                    "items": {
                        "type": "object",
                        "required": ["resource", "objects", "bytes"],
                        "properties": {
                            "group": {"type": "string", "description": "API group; empty for the core group."},
                            "resource": {"type": "string", "description": "Plural name."},
                            "objects": _OBJECTS,
                            "bytes": _BYTES,
                        },
                    },
                },
            },
        }
    },
}


class _Counts:
    """The counts of one cluster, which run one at a time."""

    __slots__ = ("__weakref__", "begun", "latest", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.begun = 0
        """How many counts have begun."""
        self.latest: Object = {}


class ClusterUsages(RestStorage):
    """Counts the objects of a cluster below the keys of each resource that it serves.

    A count reads everything that the cluster stores. Requests that wait for a running count share the next one.
    """

    def __init__(self) -> None:
        """A storage that `connect` has to be called on before the first request."""
        self._storage: Storage | None = None
        self._tables: ResourceTables | None = None
        self._counts: WeakValueDictionary[Name, _Counts] = WeakValueDictionary()

    def connect(self, storage: Storage, tables: ResourceTables) -> None:
        """Say where objects are, and which resources each cluster serves."""
        self._storage, self._tables = storage, tables

    async def get(self, request: ReadRequest) -> Object:
        """The usage of the cluster.

        Raises:
            StatusError: 404 for any name but `cluster`.
        """
        if request.target.name != NAME:
            raise errors.not_found(request.target.resource.group_resource, request.target.name)
        return await self._usage(request.target.cluster_state.name)

    async def list(self, request: ReadRequest) -> Sequence[Object]:
        """The one usage of the cluster."""
        return [await self._usage(request.target.cluster_state.name)]

    async def _usage(self, cluster: Name) -> Object:
        """A count that begins after the call, by this request or by another one that waits."""
        counts = self._counts.get(cluster)
        if counts is None:
            counts = self._counts[cluster] = _Counts()
        begun_before = counts.begun
        async with counts.lock:
            if counts.begun == begun_before or not counts.latest:
                counts.begun += 1
                counts.latest = {}
                counts.latest = await self._count(cluster)
            return deepcopy(counts.latest)

    async def _count(self, cluster: Name) -> Object:
        assert self._storage is not None, "connected before the first request"
        assert self._tables is not None, "connected before the first request"
        found: list[dict[str, Any]] = []
        time_slice = TimeSlice()
        for served in (await self._tables.get(cluster)).stored_resources():
            resource = served.resource
            prefix, start, objects, size = resource.keys.cluster_prefix(cluster), "", 0, 0
            while True:
                page = await self._storage.range(prefix, start=start, limit=_PAGE)
                objects += len(page.items)
                size += sum(len(item.value) for item in page.items)
                await time_slice.yield_if_due()
                if not page.more:
                    break
                start = page.items[-1].key + "\x00"
            if objects:
                found.append({"group": resource.group, "resource": resource.resource, "objects": objects, "bytes": size})
        found.sort(key=lambda one: (-one["bytes"], one["group"], one["resource"]))
        total = {kind: sum(one[kind] for one in found) for kind in ("objects", "bytes")}
        return {"metadata": {"name": NAME}, "usage": {**total, "resources": found}}


def cluster_usages(rest: ClusterUsages) -> ComputedResource:
    """The resource, served by `rest`."""
    return ComputedResource(
        group="metrics.kcp-py.dev",
        version="v1alpha1",
        resource="clusterusages",
        kind="ClusterUsage",
        rest=rest,
        namespaced=False,
        schema=SCHEMA,
        columns=(
            {"name": "Objects", "type": "integer", "jsonPath": ".usage.objects", "description": "Number of stored objects."},
            {"name": "Bytes", "type": "integer", "jsonPath": ".usage.bytes", "description": "Bytes of their stored form."},
        ),
    )
