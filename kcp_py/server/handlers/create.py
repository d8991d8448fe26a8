"""POST of an object to its collection."""

from __future__ import annotations

from kcp_py.apimachinery.meta.options import decode_create_options
from kcp_py.registry.rest.create import create as create_object
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send_written
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import read
from kcp_py.server.handlers.manager import manager_of
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import request_media


async def create(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Store the object of the body and answer 201 with it.

    The order of checks is upstream's: Accept, Content-Type, body, options, decoding, metadata, validation.
    """
    resource = target.served.resource
    representation = representation_of(exchange, resource)
    media = request_media(exchange.headers.get(b"content-type"), protobuf=resource.protobuf)
    body = await exchange.read_body(backend.limits.max_body_bytes)
    options = decode_create_options(exchange.query)
    obj = await read(body, media, resource, field_validation=options.field_validation, warnings=exchange.warnings)
    request = target.write(exchange, options, len(body), manager_of(backend, exchange, options))
    written = await create_object(backend.access, request, obj)
    await send_written(backend, exchange, target, written, representation, status=201)
