"""Whole lists: what stands around their elements in each form, and lists of decoded objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.meta.options import decode_include_object
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import Column, column_definitions, table_row
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.encoding import ListEncoding
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import not_of_kind
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.negotiation import Representation


def list_head(
    resource: ServedResource, representation: Representation, metadata: dict[str, Any], *, columns: Sequence[Column] = ()
) -> dict[str, Any]:
    """A list without its elements. `columns` are those of a Table where they are not the resource's own."""
    match representation.transform:
        case "":
            return {"kind": resource.list_kind, "apiVersion": resource.group_version, "metadata": metadata}
        case "Table":
            head = {"kind": "Table", "apiVersion": representation.api_version, "metadata": metadata}
            return {**head, "columnDefinitions": column_definitions(columns or resource.columns)}
        case _:
            return {"kind": "PartialObjectMetadataList", "apiVersion": representation.api_version, "metadata": metadata}


def list_encoding(resource: ServedResource, representation: Representation) -> ListEncoding:
    """What writes a list of the resource."""
    head = list_head(resource, representation, {})
    item_kind = "PartialObjectMetadata" if representation.transform else resource.kind
    return ListEncoding(representation, head["apiVersion"], head["kind"], item_kind)


class ObjectList:
    """An answer of decoded objects: each is encoded as it comes, and not kept as anything else."""

    def __init__(self, backend: Backend, exchange: Exchange, target: Resolved, representation: Representation) -> None:
        """Prepare.

        Args:
            backend: for the time.
            exchange: the request.
            target: the collection.
            representation: of the answer.

        Raises:
            StatusError: 406 where the metadata of one object was asked for.
        """
        if representation.transform == "PartialObjectMetadata":
            raise not_of_kind(target.resource, representation.transform)
        self.size = 0
        """Bytes of the elements."""
        self._exchange = exchange
        self._resource = target.resource
        self._representation = representation
        self._encoding = list_encoding(target.resource, representation)
        self._include = decode_include_object(exchange.parameters.values)
        self._now = backend.clock()
        self._columns = TableColumns(target.resource, wildcard=target.only is None)
        self._elements: list[bytes] = []

    async def add(self, obj: dict[str, Any], size: int) -> None:
        """Encode an object.

        Args:
            obj: as it is to be shown, but for the transform.
            size: bytes of its JSON, roughly.
        """
        resource, representation = self._resource, self._representation
        match representation.transform:
            case "":
                document = resource.renderer.list_item(obj)
            case "Table":
                document = table_row(
                    obj, self._columns.of(resource), self._now, include_object=self._include, api_version=representation.api_version
                )
            case _:
                document = partial_object_metadata(obj, representation.api_version)
        element = await self._encoding.element_offloaded(document, size)
        self._elements.append(element)
        self.size += len(element)

    async def send(self, revision: int, page: tuple[str, int] = ("", 0)) -> None:
        """Answer with the list as of a revision.

        Args:
            revision: of the list.
            page: the token for the next page, and the number of objects behind this one; 0 where it is not known.
        """
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        token, remaining = page
        if token:
            metadata["continue"] = token
            if remaining:
                metadata["remainingItemCount"] = remaining
        head = list_head(self._resource, self._representation, metadata, columns=self._columns.union)
        parts = self._encoding.whole(head, self._elements)
        self._elements = []
        await self._exchange.respond_in_parts(200, parts, self._representation.content_type)


async def send_objects(
    backend: Backend,
    exchange: Exchange,
    target: Resolved,
    objects: Sequence[dict[str, Any]],
    representation: Representation,
    *,
    revision: int,
    page: tuple[str, int] = ("", 0),
) -> None:
    """Answer with a list of decoded objects that are at hand.

    Args:
        backend: for the time.
        exchange: the request.
        target: the collection.
        objects: small ones, as they are to be shown, but for the transform.
        representation: of the answer.
        revision: of the list.
        page: see `ObjectList.send`.

    Raises:
        StatusError: 406 where the metadata of one object was asked for.
    """
    answer = ObjectList(backend, exchange, target, representation)
    time_slice = TimeSlice()
    for obj in objects:
        await answer.add(obj, 0)
        await time_slice.yield_if_due()
    await answer.send(revision, page)
