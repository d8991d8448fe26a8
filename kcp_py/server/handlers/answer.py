"""From objects to response bytes in the negotiated representation."""

from __future__ import annotations

from typing import Any, Final

import orjson

from kcp_py.aio.aside import run_aside
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.codec import encode_pretty, encode_yaml
from kcp_py.apimachinery.metaoptions import decode_include_object
from kcp_py.apimachinery.partial import partial_object_metadata
from kcp_py.apimachinery.table import object_table
from kcp_py.registry.resource import Served
from kcp_py.registry.scale import scale_of, show_scale
from kcp_py.registry.store import load_one
from kcp_py.registry.store.access import Written
from kcp_py.registry.store.read import from_storage
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation, negotiate, wants_pretty
from kcp_py.storage.contract import KeyValue

_INLINE_YAML: Final = 8 * 1024
"""Bytes of JSON up to which the event loop writes YAML itself: two milliseconds of work."""


def representation_of(exchange: Exchange, *, watch: bool = False) -> Representation:
    """What the client wants to get.

    Raises:
        StatusError: 406.
    """
    headers = exchange.headers
    pretty = wants_pretty(exchange.query, headers.get(b"user-agent"))
    return negotiate(headers.get(b"accept"), pretty=pretty, watch=watch)


async def send_item(backend: Backend, exchange: Exchange, target: Target, item: KeyValue, representation: Representation) -> None:
    """Answer with a stored object."""
    cluster = target.one_cluster().name
    served = target.served
    paths = target.scale
    if paths is None and representation.media == "json" and not representation.transform and not representation.pretty:
        body = rendered(served, item, cluster)
        if body is not None:
            await exchange.respond(200, body + b"\n")
            return
    obj = served.resource.renderer.dress(await load_one(served, item), item.mod_revision, cluster)
    if paths is not None:
        obj = show_scale(obj, paths)
    await send_object(backend, exchange, target, obj, representation, status=200)


async def send_written(
    backend: Backend, exchange: Exchange, target: Target, written: Written, representation: Representation, *, status: int
) -> None:
    """Answer with an object that was just written."""
    cluster = target.one_cluster().name
    renderer = target.resource.renderer
    plain = representation.media == "json" and not representation.transform and not representation.pretty
    paths = target.scale
    if plain and paths is None and written.mod_revision:
        item = KeyValue("", written.value, written.mod_revision, 0)
        body = renderer.splice(item, cluster)
        if body is not None:
            await exchange.respond(status, body + b"\n")
            return
    obj = orjson.loads(written.value)
    obj = renderer.dress(await from_storage(target.resource, obj), written.mod_revision, cluster)
    if paths is not None:
        obj = scale_of(obj, paths)
    await send_object(backend, exchange, target, obj, representation, status=status)


async def send_object(
    backend: Backend,
    exchange: Exchange,
    target: Target,
    obj: dict[str, Any],
    representation: Representation,
    *,
    status: int,
) -> None:
    """Answer with a decoded, dressed object."""
    api_version = f"meta.k8s.io/{representation.transform_version}"
    match representation.transform:
        case "":
            document = obj
        case "Table":
            document = object_table(
                obj,
                target.resource.columns,
                now=backend.clock(),
                include_object=decode_include_object(exchange.query),
                api_version=api_version,
            )
        case "PartialObjectMetadata":
            document = partial_object_metadata(obj, api_version)
        case _:
            raise errors.not_acceptable(["application/json", "application/yaml"])
    await send_document(exchange, document, representation, status=status)


async def send_document(exchange: Exchange, document: Any, representation: Representation, *, status: int = 200) -> None:
    """Answer with a decoded document in the encoding asked for."""
    if representation.media == "yaml":
        large = len(orjson.dumps(document)) > _INLINE_YAML
        await exchange.respond(status, await run_aside(encode_yaml, document) if large else encode_yaml(document), b"application/yaml")
    elif representation.pretty:
        await exchange.respond(status, encode_pretty(document))
    else:
        await exchange.respond(status, orjson.dumps(document) + b"\n")


def rendered(served: Served, item: KeyValue, cluster: str, *, wildcard: bool = False, in_list: bool = False) -> bytes | None:
    """The answered form without decoding, or None where the object has to be decoded first."""
    if item.mod_revision < served.fresh_since:
        return None
    return served.resource.renderer.splice(item, cluster, wildcard=wildcard, in_list=in_list)
