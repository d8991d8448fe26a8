"""Whole lists: what stands around their elements in each form, and lists of objects that are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcp_py.aio.turns import Turns
from kcp_py.apimachinery.metaoptions import decode_include_object
from kcp_py.apimachinery.partial import partial_object_metadata
from kcp_py.apimachinery.table import Column, column_definitions, table_row
from kcp_py.registry.resource import ServedResource
from kcp_py.server.encoding import ListEncoding
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import not_of_kind
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.handlers.target import Target
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


async def send_objects(  # as its like
    backend: Backend,
    exchange: Exchange,
    target: Target,
    objects: Sequence[dict[str, Any]],
    representation: Representation,
    *,
    revision: int,
) -> None:
    """Answer with a list of decoded, dressed objects.

    Args:
        backend: for the time.
        exchange: the request.
        target: the collection.
        objects: as they are to be shown, but for the transform.
        representation: of the answer.
        revision: of the list.

    Raises:
        StatusError: 406 where the metadata of one object was asked for.
    """
    resource = target.resource
    if representation.transform == "PartialObjectMetadata":
        raise not_of_kind(resource, representation.transform)
    encoding = list_encoding(resource, representation)
    include = decode_include_object(exchange.query)
    now = backend.clock()
    elements: list[bytes] = []
    columns = TableColumns(resource, wildcard=target.scope is None)
    turns = Turns()
    for obj in objects:
        match representation.transform:
            case "":
                document = resource.renderer.bare(obj)
            case "Table":
                document = table_row(obj, columns.of(resource), now, include_object=include, api_version=representation.api_version)
            case _:
                document = partial_object_metadata(obj, representation.api_version)
        elements.append(encoding.element(document))
        await turns.take()
    parts = encoding.whole(list_head(resource, representation, {"resourceVersion": str(revision)}, columns=columns.union), elements)
    await exchange.respond(200, b"".join(parts), representation.content_type)
