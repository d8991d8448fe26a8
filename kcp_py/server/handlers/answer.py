"""From objects to response bytes in the negotiated representation."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import decode_include_object
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import object_table
from kcp_py.logicalcluster import WILDCARD
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.storage import Object, StoredObject, WrittenObject
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.encoding import encode_offloaded
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.negotiation import DEFAULT, PLAIN, TOOLS_OF_PEOPLE, Representation, negotiate, wants_pretty
from kcp_py.storage.contract import KeyValue

_NO_QUERY: Final[Mapping[str, Sequence[str]]] = {}


def representation_of(exchange: Exchange, resource: ServedResource, *, watch: bool = False, listed: bool = False) -> Representation:
    """What the client wants to get.

    Args:
        exchange: the request.
        resource: what it is for.
        watch: whether it is for a stream.
        listed: whether it is a GET of a collection.

    Raises:
        StatusError: 406.
    """
    headers = exchange.headers
    accept, agent = headers.get(b"accept"), headers.get(b"user-agent")
    query = exchange.parameters.values if exchange.scope["query_string"] else _NO_QUERY
    if accept in PLAIN and "pretty" not in query and (agent is None or not agent.startswith(TOOLS_OF_PEOPLE)):
        # What nearly all programs ask for.
        return DEFAULT
    pretty = wants_pretty(query, agent)
    return negotiate(accept, pretty=pretty, watch=watch, protobuf=resource.protobuf, routed=resource.typed, listed=listed)


def not_of_kind(resource: ServedResource, transform: str) -> StatusError:
    """406 for metadata of one object asked for of a list, or the other way round.

    The type that it names is that of upstream's own representation.
    """
    listed = transform == "PartialObjectMetadata"
    if resource.typed:
        package = "core" if resource.group in {"", "events.k8s.io"} else resource.group.partition(".")[0]
        found = f"*{package}.{resource.list_kind if listed else resource.kind}"
    else:
        found = "*unstructured.UnstructuredList" if listed else "*unstructured.Unstructured"
    is_what = "a list" if listed else "not a list"
    return StatusError(406, "NotAcceptable", f"you requested {transform}, but the requested object is {is_what} ({found})")


def send(
    backend: Backend,
    exchange: Exchange,
    target: Resolved,
    found: StoredObject | WrittenObject | Object,
    representation: Representation,
    *,
    status: int = 200,
) -> Awaitable[None]:
    """Answer with an object: with its stored bytes where these can be spliced, or else decoded."""
    if representation == DEFAULT and not isinstance(found, dict) and (body := found.spliced()) is not None:
        return exchange.respond(status, body + b"\n")
    return _send_decoded(backend, exchange, target, found, representation, status=status)


async def _send_decoded(
    backend: Backend,
    exchange: Exchange,
    target: Resolved,
    found: StoredObject | WrittenObject | Object,
    representation: Representation,
    *,
    status: int,
) -> None:
    if isinstance(found, dict):
        subresource = target.resource.subresources[target.subresource] if target.subresource else None
        if subresource is not None and subresource.kind is not None:
            # Of a kind of its own, which has no columns.
            await send_document(exchange, found, representation, status=status)
            return
        obj = found
    else:
        obj = await found.decoded()
        target = found.target
    await send_object(backend, exchange, target, obj, representation, status=status)


async def send_object(
    backend: Backend,
    exchange: Exchange,
    target: Resolved,
    obj: dict[str, Any],
    representation: Representation,
    *,
    status: int,
) -> None:
    """Answer with a decoded object that has the fields that the server adds."""
    match representation.transform:
        case "":
            document = obj
        case "Table":
            columns = TableColumns(target.resource, wildcard=exchange.context.cluster is WILDCARD)
            document = object_table(
                obj,
                columns.of(target.resource),
                now=backend.clock(),
                include_object=decode_include_object(exchange.query),
                api_version=representation.api_version,
            )
        case "PartialObjectMetadata":
            document = partial_object_metadata(obj, representation.api_version)
        case transform:
            raise not_of_kind(target.resource, transform)
    await send_document(exchange, document, representation, status=status)


async def send_document(exchange: Exchange, document: Any, representation: Representation, *, status: int = 200) -> None:
    """Answer with a decoded document in the encoding asked for."""
    await exchange.respond(status, await encode_offloaded(document, representation), representation.content_type)


def rendered(served: Served, item: KeyValue, cluster: str, *, wildcard: bool = False, in_list: bool = False) -> bytes | None:
    """The answered form without decoding, or None where the object has to be decoded first."""
    if item.mod_revision < served.fresh_since:
        return None
    return served.resource.renderer.splice(item, cluster, wildcard=wildcard, in_list=in_list)
