"""PUT of an object or of a subresource."""

from __future__ import annotations

from functools import partial

from kcp_py.aio.stages import next_stage
from kcp_py.apimachinery.meta.options import decode_update_options
from kcp_py.registry.rest.kinds import body_kind
from kcp_py.registry.rest.storage import WrittenObject
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import read, read_again, read_small
from kcp_py.server.handlers.manager import manager_of
from kcp_py.server.negotiation import request_media


async def update(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Replace the object by that of the body; 200, or 201 where the kind lets PUT create."""
    resource = target.served.resource
    representation = representation_of(exchange, resource)
    limit = backend.limits.max_body_bytes
    body = exchange.body_at_hand(limit) or await exchange.read_body(limit)
    options = exchange.parameters.decode(decode_update_options)
    media = request_media(exchange.headers.get(b"content-type"), protobuf=resource.protobuf)
    kind = body_kind(target)
    again = partial(read_again, body, media, kind)
    strict = options.field_validation != "Ignore"
    obj, decoding = read_small(body, media, kind, strict=strict, again=again) or await read(body, media, kind, strict=strict, again=again)
    request = WriteRequest(exchange.context, target, options, len(body), manager_of(backend, exchange, options), decoding)
    await next_stage()
    updated = await backend.verbs.of(target).update(request, obj)
    created = isinstance(updated, WrittenObject) and updated.created
    await send(backend, exchange, target, updated, representation, status=201 if created else 200)
