"""DELETE of one object and of a collection."""

from __future__ import annotations

from typing import Any

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import DeleteOptions, decode_delete_options
from kcp_py.apimachinery.serializer.json.codec import decode_json, decode_yaml
from kcp_py.registry.store import delete as delete_stored
from kcp_py.registry.store.access import Written
from kcp_py.registry.store.delete import propagation_of
from kcp_py.registry.store.read import from_storage
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send_document, send_written
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import decode_delete_options_message
from kcp_py.server.handlers.collection import ObjectList
from kcp_py.server.handlers.list import Listing, list_options, matching_items
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import request_media


async def delete(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Delete the object: 200 with a Status, or with the object while finalizers remain or where the kind returns it.

    202 where finalizers remain and the caller has asked by the old option for dependents to be deleted.
    """
    representation = representation_of(exchange, target.resource)
    options = await read_delete_options(backend, exchange)
    _warn(exchange, target, options)
    written = await delete_stored(backend.access, target.write(exchange, options, 0))
    if not written.deleted or target.resource.strategy.return_deleted_object:
        pending = not written.deleted and options.orphan_dependents is False
        await send_written(backend, exchange, target, written, representation, status=202 if pending else 200)
        return
    resource = target.resource
    details = {"name": target.name, "kind": resource.resource, "uid": written.obj["metadata"]["uid"]}
    if resource.group:
        details["group"] = resource.group
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    await send_document(exchange, status, representation)


async def delete_collection(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Delete every object that the list options select, and answer with the list of them.

    Raises:
        StatusError: 429 where the list takes more memory than lists of the cluster may; what was deleted before stays deleted.
    """
    representation = representation_of(exchange, target.resource)
    delete_options = await read_delete_options(backend, exchange)
    _warn(exchange, target, delete_options)
    options = list_options(exchange, target)
    listing = Listing(backend, target, options)
    answer = ObjectList(backend, exchange, target, representation)
    time_slice = TimeSlice()
    # A name of its own: how large lists of the collection are is not learned from it.
    with backend.lists.share(str(target.one_cluster().name), f"{target.resource.keys.prefix}deleted") as share:
        async for items in matching_items(listing):
            for item in items:
                key = target.resource.keys.parse(item.key)
                try:
                    one = target._replace(namespace=key.namespace, name=key.name)
                    written = await delete_stored(backend.access, one.write(exchange, delete_options, 0))
                except StatusError as error:
                    if error.code == 404:
                        continue
                    raise
                await answer.add(await _dressed(target, written), len(written.value))
                # What is gone is gone: who tries again has the rest deleted.
                share.hold(answer.size)
                await time_slice.yield_if_due()
            del items
        await answer.send(listing.revision)


def _warn(exchange: Exchange, target: Target, options: DeleteOptions) -> None:
    strategy = target.resource.strategy
    if not propagation_of(options, strategy) and (warning := strategy.deletion_warning):
        exchange.warnings.append(warning)


async def _dressed(target: Target, written: Written) -> dict[str, Any]:
    obj = await from_storage(target.resource, orjson.loads(written.value))
    return target.resource.renderer.dress(obj, written.mod_revision, target.one_cluster().name)


async def read_delete_options(backend: Backend, exchange: Exchange) -> DeleteOptions:
    """The options of a deletion: those of its body, or else of its query.

    Raises:
        StatusError: 400 for options that cannot be decoded, 413 for a body that is too large.
    """
    body = await exchange.read_body(backend.limits.max_body_bytes)
    document: dict[str, Any] | None = None
    if body.strip():
        media = request_media(exchange.headers.get(b"content-type"), protobuf=True)
        try:
            decoded = (
                decode_delete_options_message(body) if media == "protobuf" else (decode_json if media == "json" else decode_yaml)(body)
            )
        except ValueError as error:
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
        if not isinstance(decoded, dict):
            raise errors.bad_request("the request body must be DeleteOptions")
        if isinstance(kind := decoded.get("kind"), str) and kind not in {"", "DeleteOptions"}:
            raise errors.bad_request(f"decoded object cannot be converted to DeleteOptions: {kind}")
        document = decoded
    return decode_delete_options(exchange.query, document)
