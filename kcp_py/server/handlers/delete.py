"""DELETE of one object and of a collection."""

from __future__ import annotations

from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.meta.options import DeleteOptions, decode_delete_options, decode_list_options
from kcp_py.apimachinery.serializer.json.codec import decode_json
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml
from kcp_py.registry.rest.storage import WrittenObject
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send, send_document
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import decode_delete_options_message
from kcp_py.server.handlers.collection import ObjectList
from kcp_py.server.negotiation import request_media


async def delete(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Delete the object: 200 with a Status, or with the object while finalizers remain or where the kind returns it.

    202 where finalizers remain and the caller has asked by the old option for dependents to be deleted.
    """
    resource = target.resource
    representation = representation_of(exchange, resource)
    options = await read_delete_options(backend, exchange)
    deleted = await backend.verbs.of(target).delete(WriteRequest(exchange.context, target, options))
    uid = ""
    if isinstance(deleted, WrittenObject):
        if deleted.answers_deletion:
            pending = not deleted.deleted and options.orphan_dependents is False
            await send(backend, exchange, target, deleted, representation, status=202 if pending else 200)
            return
        uid = deleted.written.obj["metadata"]["uid"]
    elif deleted is not None:
        await send(backend, exchange, target, deleted, representation)
        return
    details = {"name": target.name, "kind": resource.resource}
    if uid:
        details["uid"] = uid
    if resource.group:
        details["group"] = resource.group
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    await send_document(exchange, status, representation)


async def delete_collection(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Delete every object that the list options select, and answer with the list of them.

    Raises:
        StatusError: 429 where the list takes more memory than lists of the cluster may; objects that were deleted before stay deleted.
    """
    representation = representation_of(exchange, target.resource)
    delete_options = await read_delete_options(backend, exchange)
    options = decode_list_options(exchange.query)
    deleted = backend.verbs.of(target).delete_collection(WriteRequest(exchange.context, target, delete_options), options)
    answer = ObjectList(backend, exchange, target, representation)
    # A name of its own: how large lists of the collection are is not learned from it.
    with backend.lists.share(str(target.cluster_state.name), f"{target.resource.keys.prefix}deleted") as share:
        async for one in deleted:
            await answer.add(await one.decoded(), one.size)
            # Deleted objects stay deleted: a retry deletes the rest.
            share.hold(answer.size)
        await answer.send(deleted.revision)


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
