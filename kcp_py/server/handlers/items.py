"""Stored items on their way into lists and watch events: decoded where they must be, spliced where they can be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import IncludeObject, table_row
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.store import load, load_one
from kcp_py.server.handlers.answer import rendered
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import KeyValue

_CLUSTERS_AT_ONCE: Final = 64
"""So many clusters have their objects converted at the same time."""
UNCONVERTED: Final[dict[str, Any]] = {}
"""Stands for an object that its cluster's webhook does not convert; compared by identity."""
_SPLICED_PER_TURN: Final = 1_000
"""After so many spliced items other requests get a turn: about a millisecond."""


class Items:
    """Turns stored items of one target into the elements of its representation."""

    __slots__ = ("_api_version", "_backend", "_include", "_now", "_target", "_transform", "columns", "left_out", "wildcard")

    def __init__(self, backend: Backend, target: Target, representation: Representation, include: IncludeObject = "Metadata") -> None:
        self._backend = backend
        self._target = target
        self._transform = representation.transform
        self._api_version = representation.api_version
        self._include: IncludeObject = include
        self._now = backend.clock()
        self.wildcard = target.scope is None
        self.columns = TableColumns(target.resource, wildcard=self.wildcard)
        self.left_out: dict[Name, StatusError] = {}
        """Clusters of which objects could not be shown, and why. Only over all clusters: no cluster makes the request of another fail."""

    def cluster_of(self, item: KeyValue) -> Name:
        """The cluster that an item lives in."""
        if self._target.scope is not None:
            return self._target.scope.name
        return self._target.resource.keys.locate(item.key).cluster

    async def served_in(self, cluster: Name) -> Served | None:
        """The resource as the item's own cluster serves it; None where that cluster does not serve the version asked for."""
        served = self._target.served
        return await self._backend.tables.served_in(cluster, served) if self.wildcard else served

    async def decoded(self, item: KeyValue, served: Served, cluster: Name) -> dict[str, Any]:
        """The object in the version of the request, dressed."""
        obj = (await self._load(served, [item], cluster))[0] if self._may_fail(served) else await load_one(served, item)
        return served.resource.renderer.dress(obj, item.mod_revision, cluster, wildcard=self.wildcard)

    def _may_fail(self, served: Served) -> bool:
        return self.wildcard and served.resource.converter is not None

    async def _load(self, served: Served, items: Sequence[KeyValue], cluster: Name) -> list[dict[str, Any]]:
        if self._may_fail(served):
            return await self._backend.conversions.load(cluster, served, items)
        return await load(served, items)

    async def find_columns(self) -> None:
        """Over all clusters, take in the columns of every definition of the resource: a Table begins with them."""
        resource = self._target.resource
        if self.wildcard and self._transform == "Table" and self._target.served.per_cluster:
            for other in await self._backend.wildcard.definitions(resource.group, resource.version, resource.resource):
                self.columns.add(other)

    async def converted(self, states: Sequence[tuple[KeyValue, Served, Name]], *, needed: bool = False) -> list[dict[str, Any] | None]:
        """The objects of those items that a webhook has to convert, as `decoded`; None for others.

        Over all clusters, `UNCONVERTED` for those that it does not convert.

        Those of one cluster are converted together, and never with those of another, which are not for its webhook to see.

        Args:
            states: item, the resource in the item's cluster, and that cluster.
            needed: whether objects are needed also of items that can be answered as they are stored.
        """
        objects: list[dict[str, Any] | None] = [None] * len(states)
        places: dict[Name, list[int]] = {}
        for at, (item, served, cluster) in enumerate(states):
            if served.resource.converter is None or (not needed and self._is_answered_as_stored(item, served, cluster)):
                continue
            places.setdefault(cluster, []).append(at)

        async def convert(cluster: Name, together: Sequence[int]) -> None:
            served = states[together[0]][1]
            try:
                loaded = await self._load(served, [states[at][0] for at in together], cluster)
            except StatusError as error:
                if not self.wildcard:
                    raise
                self.left_out[cluster] = error
                for at in together:
                    objects[at] = UNCONVERTED
                return
            for at, obj in zip(together, loaded, strict=True):
                objects[at] = served.resource.renderer.dress(obj, states[at][0].mod_revision, cluster, wildcard=self.wildcard)

        # Of several clusters at once: a slow webhook of one is not to be waited for by all.
        clusters = list(places.items())
        for start in range(0, len(clusters), _CLUSTERS_AT_ONCE):
            await asyncio.gather(*(convert(cluster, together) for cluster, together in clusters[start : start + _CLUSTERS_AT_ONCE]))
        return objects

    def _is_answered_as_stored(self, item: KeyValue, served: Served, cluster: Name) -> bool:
        if self._transform:
            return self._stored_metadata
        return rendered(served, item, cluster, wildcard=self.wildcard, in_list=True) is not None

    @property
    def _stored_metadata(self) -> bool:
        """Whether metadata is answered as it is stored, in whatever version.

        Over all clusters, as kcp does: no cluster's webhook stands in the way of those who look after them all.
        """
        return self.wildcard and self._transform.startswith("Partial")

    async def shown(self, item: KeyValue, served: Served, cluster: Name) -> dict[str, Any]:
        """An object that is answered: `decoded`, or as it is stored where only stored metadata is answered of it."""
        if served.resource.converter is None or not self._stored_metadata:
            return await self.decoded(item, served, cluster)
        return served.resource.renderer.dress(orjson.loads(item.value), item.mod_revision, cluster, wildcard=True)

    async def spliced(self, items: Sequence[KeyValue]) -> list[bytes] | None:
        """The elements of a plain list of one cluster, without decoding any; None where that is not possible for all of them."""
        scope = self._target.scope
        if self._transform or scope is None:
            return None
        served = self._target.served
        splice = served.resource.renderer.splicer(scope.name, in_list=True)
        parts: list[bytes] = []
        for start in range(0, len(items), _SPLICED_PER_TURN):
            if start:
                await asyncio.sleep(0)
            for item in items[start : start + _SPLICED_PER_TURN]:
                part = splice(item) if item.mod_revision >= served.fresh_since else None
                if part is None:
                    return None
                parts.append(part)
        return parts

    async def document(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None = None) -> dict[str, Any]:
        """An element of a list: an object, its metadata, or a row.

        Args:
            item: as stored.
            served: the resource in the item's cluster.
            cluster: the item's cluster.
            obj: the decoded object, where somebody already has it.
        """
        if self._transform == "Table":
            if obj is None:
                obj = await self.decoded(item, served, cluster)
            columns = self.columns.of(served.resource)
            return table_row(obj, columns, self._now, include_object=self._include, api_version=self._api_version)
        if obj is None:
            obj = await self.shown(item, served, cluster)
        return partial_object_metadata(obj, self._api_version) if self._transform else served.resource.renderer.bare(obj)

    async def element(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None = None) -> bytes:
        """`document` as compact JSON, without decoding it where that is possible."""
        if not self._transform:
            spliced = rendered(served, item, cluster, wildcard=self.wildcard, in_list=True)
            if spliced is not None:
                return spliced
        return orjson.dumps(await self.document(item, served, cluster, obj))
