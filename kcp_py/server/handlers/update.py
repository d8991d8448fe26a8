"""PUT of an object, its status or its Scale."""

from __future__ import annotations

from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.apimachinery.metaoptions import decode_update_options
from kcp_py.registry.scale import ScalePaths, apply_scale
from kcp_py.registry.store import Current
from kcp_py.registry.store import update as update_stored
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send_written
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import read
from kcp_py.server.handlers.manager import manager_of
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import request_media


async def update(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Replace the object by that of the body; 200, or 201 where the kind lets PUT create."""
    representation = representation_of(exchange, target.resource)
    kind, paths = target.body_kind, target.scale
    body = await exchange.read_body(backend.limits.max_body_bytes)
    options = decode_update_options(exchange.query)
    media = request_media(exchange.headers.get(b"content-type"), protobuf=target.resource.protobuf)
    warnings_before = len(exchange.warnings)

    async def read_anew() -> dict[str, Any]:
        del exchange.warnings[warnings_before:]
        obj = await read(body, media, kind, field_validation=options.field_validation, warnings=exchange.warnings)
        check_identity(obj, target)
        return obj

    # Before the object is looked up, as upstream: a bad body is a 400, whether or not there is an object. An attempt uses it up.
    unused: list[dict[str, Any]] = [await read_anew()]

    async def transform(current: Current | None) -> dict[str, Any]:
        obj = unused.pop() if unused else await read_anew()
        if paths is None or current is None:
            return obj
        whole = await scaled(paths, obj, current)
        if uid := obj["metadata"].get("uid"):  # a precondition, as in any PUT
            whole["metadata"]["uid"] = uid
        return whole

    request = target.write(exchange, options, len(body), manager_of(backend, exchange, options))
    written = await update_stored(backend.access, request, transform, may_create=True)
    await send_written(backend, exchange, target, written, representation, status=201 if written.created else 200)


async def scaled(paths: ScalePaths, scale: dict[str, Any], current: Current) -> dict[str, Any]:
    """The object as stored, in the version of the request, with what a Scale says."""
    obj = await current.load()
    obj["metadata"]["resourceVersion"] = str(current.item.mod_revision)
    apply_scale(scale, obj, paths)
    return obj


def other_uid(target: Target, given: str) -> StatusError:
    """422 for a uid that is not the object's: only in a PUT it is a precondition (`rest.DefaultUpdatedObjectInfo`)."""
    problems = [invalid("metadata.uid", given, "field is immutable")]
    return errors.invalid(target.resource.group_version_kind.group_kind, target.name, problems)


def check_identity(obj: dict[str, Any], target: Target) -> None:
    """Compare name and namespace of the object with those of the URL.

    Raises:
        StatusError: 400 where they differ, and for a missing name.
    """
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    if not target.resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace and namespace != target.namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    name = metadata.get("name")
    if not name:
        raise errors.bad_request(f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided")
    if name != target.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
