"""Stored items on their way into lists and watch events: decoded where they must be, spliced where they can be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import IncludeObject, table_row
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.items import StoredItems
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.handlers.answer import rendered
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import KeyValue

_SPLICED_PER_TURN: Final = 1_000
"""After so many spliced items other requests get a turn: about a millisecond."""


class ItemEncoder:
    """Turns stored items of one target into the elements of its representation."""

    __slots__ = ("_api_version", "_backend", "_columns", "_include", "_items", "_now", "_target", "_transform", "wildcard")

    def __init__(
        self,
        backend: Backend,
        target: Resolved,
        representation: Representation,
        include: IncludeObject = "Metadata",
        *,
        items: StoredItems | None = None,
    ) -> None:
        """Prepare.

        Args:
            backend: for the time, and for the CRDs of all clusters.
            target: the collection.
            representation: of the answer.
            include: what rows of a Table hold of their objects.
            items: decodes those of the request; None where it has none.
        """
        self._backend = backend
        self._target = target
        self._transform = representation.transform
        self._api_version = representation.api_version
        self._include: IncludeObject = include
        self._items = items if items is not None else StoredItems(backend, target)
        self._now = backend.clock()
        self.wildcard = target.only is None
        self._columns: TableColumns | None = None

    @property
    def columns(self) -> TableColumns:
        """Columns of the Table. Made when they are first asked for: most watches never need them."""
        if self._columns is None:
            self._columns = TableColumns(self._target.resource, wildcard=self.wildcard)
        return self._columns

    async def find_columns(self) -> None:
        """Over all clusters, take in the columns of every CRD of the resource: a Table begins with them."""
        resource = self._target.resource
        if self.wildcard and self._transform == "Table" and self._target.served.per_cluster:
            name = resource.group, resource.version, resource.resource
            for other in await self._backend.wildcard.forms(*name, sight=self._target.sight):
                self.columns.add(other)

    def is_answered_as_stored(self, item: KeyValue, served: Served, cluster: Name) -> bool:
        """Whether an item is answered without conversion, see `registry.rest.items.AsStored`."""
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
        """An object that is answered: decoded, or as it is stored where only stored metadata is answered of it."""
        if served.resource.converter is None or not self._stored_metadata:
            return await self._items.decoded(item, served, cluster)
        return served.resource.renderer.add_server_fields(orjson.loads(item.value), item.mod_revision, cluster, wildcard=True)

    async def spliced(self, items: Sequence[KeyValue]) -> list[bytes] | None:
        """The elements of a plain list of one cluster, without decoding any; None where that is not possible for all of them."""
        cluster_state = self._target.only
        if self._transform or cluster_state is None:
            return None
        served = self._target.served
        splice = served.resource.renderer.splicer(cluster_state.name, in_list=True)
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
            obj: the decoded object, where it is at hand.
        """
        if self._transform == "Table":
            if obj is None:
                obj = await self._items.decoded(item, served, cluster)
            columns = self.columns.of(served.resource)
            return table_row(obj, columns, self._now, include_object=self._include, api_version=self._api_version)
        if obj is None:
            obj = await self.shown(item, served, cluster)
        return partial_object_metadata(obj, self._api_version) if self._transform else served.resource.renderer.list_item(obj)

    async def element(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None = None) -> bytes:
        """`document` as compact JSON, without decoding it where that is possible."""
        spliced = self.element_as_stored(item, served, cluster)
        return spliced if spliced is not None else orjson.dumps(await self.document(item, served, cluster, obj))

    def element_as_stored(self, item: KeyValue, served: Served, cluster: Name) -> bytes | None:
        """`element` of an object that need not be decoded; None for others."""
        return None if self._transform else rendered(served, item, cluster, wildcard=self.wildcard, in_list=True)
