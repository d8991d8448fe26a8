"""PATCH of an object, its status or its Scale, in the four forms of a patch."""

from __future__ import annotations

from functools import partial
from typing import Final

from kcp_py.aio.stages import next_stage
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import decode_patch_options
from kcp_py.registry.rest.computed import PatchedObject
from kcp_py.registry.rest.patch import APPLY_PATCH, patch_types, read_patch
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.manager import manager_of

_decode_apply_options: Final = partial(decode_patch_options, apply=True)
_decode_patch_options: Final = partial(decode_patch_options, apply=False)


async def patch(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Change the object as the body says, against its latest state; 200, or 201 where an apply made the object."""
    patch_type = _patch_type(exchange, target)
    representation = representation_of(exchange, target.served.resource)
    limit = backend.limits.max_body_bytes
    body = exchange.body_at_hand(limit) or await exchange.read_body(limit)
    options = exchange.parameters.decode(_decode_apply_options if patch_type == APPLY_PATCH else _decode_patch_options)
    change = await read_patch(body, patch_type, strict=options.field_validation != "Ignore")
    request = WriteRequest(exchange.context, target, options, len(body), manager_of(backend, exchange, options))
    await next_stage()
    written = await backend.verbs.of(target).patch(request, change)
    found = written.obj if isinstance(written, PatchedObject) else written
    await send(backend, exchange, target, found, representation, status=201 if written.created else 200)


def _patch_type(exchange: Exchange, target: Resolved) -> str:
    """The media type of the patch.

    Raises:
        StatusError: 415 for one that the resource does not take.
    """
    accepted = patch_types(target)
    given = exchange.headers.get(b"content-type", b"").partition(b";")[0].strip().decode("latin-1").lower()
    if given not in accepted:
        if target.resource.typed:
            # The router of built-in kinds says no more.
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        raise errors.unsupported_media_type(accepted)
    return given
