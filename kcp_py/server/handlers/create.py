"""POST of an object to its collection, or of a document to a subresource."""

from __future__ import annotations

from kcp_py.aio.stages import next_stage
from kcp_py.apimachinery.meta.options import decode_create_options
from kcp_py.registry.rest.kinds import body_kind
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import read, read_small
from kcp_py.server.handlers.manager import manager_of
from kcp_py.server.negotiation import request_media


async def create(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Create the object of the body and answer 201 with it.

    The order of checks is upstream's: Accept, Content-Type, body, options, decoding, metadata, validation.
    """
    resource = target.served.resource
    representation = representation_of(exchange, resource)
    media = request_media(exchange.headers.get(b"content-type"), protobuf=resource.protobuf)
    limit = backend.limits.max_body_bytes
    body = exchange.body_at_hand(limit) or await exchange.read_body(limit)
    options = exchange.parameters.decode(decode_create_options)
    kind = body_kind(target) if target.subresource else resource
    strict = options.field_validation != "Ignore"
    obj, decoding = read_small(body, media, kind, strict=strict) or await read(body, media, kind, strict=strict)
    request = WriteRequest(exchange.context, target, options, len(body), manager_of(backend, exchange, options), decoding)
    await next_stage()
    created = await backend.verbs.of(target).create(request, obj)
    await send(backend, exchange, target, created, representation, status=201)
