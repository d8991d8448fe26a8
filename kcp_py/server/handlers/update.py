"""PUT of an object, its status or its Scale."""

from __future__ import annotations

from typing import Any

from kcp_py.apimachinery.meta.options import decode_update_options
from kcp_py.registry.rest.update import body_kind
from kcp_py.registry.rest.update import update as update_object
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send_written
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import read
from kcp_py.server.handlers.manager import manager_of
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import request_media


async def update(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Replace the object by that of the body; 200, or 201 where the kind lets PUT create."""
    resource = target.served.resource
    representation = representation_of(exchange, resource)
    body = await exchange.read_body(backend.limits.max_body_bytes)
    options = decode_update_options(exchange.query)
    media = request_media(exchange.headers.get(b"content-type"), protobuf=resource.protobuf)
    request = target.write(exchange, options, len(body), manager_of(backend, exchange, options))
    kind = body_kind(request.target)

    async def source() -> dict[str, Any]:
        return await read(body, media, kind, field_validation=options.field_validation, warnings=exchange.warnings)

    written = await update_object(backend.access, request, source)
    await send_written(backend, exchange, target, written, representation, status=201 if written.created else 200)
