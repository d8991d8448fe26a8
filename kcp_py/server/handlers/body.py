"""From the bytes of a request body to an object of the resource's kind. Large bodies are decoded in threads."""

from __future__ import annotations

from typing import Any

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.serializer import protobuf
from kcp_py.apimachinery.serializer.json.codec import decode_json, decode_json_strict
from kcp_py.apimachinery.serializer.protobuf import ProtobufError, decode_envelope
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from kcp_py.bootstrap.wire import META, message_of
from kcp_py.golang.types import json_type
from kcp_py.registry.rest.conform import BodyKind, cannot_be_handled, check_kind, excerpt, unrecognized
from kcp_py.registry.writerequest import Decoding, Media, Source


async def read(
    body: bytes, media: Media, resource: BodyKind, *, strict: bool, again: Source | None = None
) -> tuple[dict[str, Any], Decoding]:
    """Decode a body, in a thread if it is large.

    Args:
        body: as sent.
        media: its type.
        resource: the kind.
        strict: whether the verb reports duplicate keys.
        again: decodes the body once more, for an update.

    Returns:
        The object, and how it was decoded.

    Raises:
        StatusError: see `decode`.
    """
    if (found := read_small(body, media, resource, strict=strict, again=again)) is not None:
        return found
    repeated: list[str] | None = [] if strict else None
    obj = await offload(decode, body, media, resource, repeated)
    return obj, Decoding(body, media, repeated or (), True, again)


def read_small(
    body: bytes, media: Media, resource: BodyKind, *, strict: bool, again: Source | None = None
) -> tuple[dict[str, Any], Decoding] | None:
    """`read` of a body that needs no thread, as nearly all do, without waiting; None for a large one."""
    if len(body) > Inline.PARSE[media]:
        return None
    repeated: list[str] | None = [] if strict else None
    obj = decode(body, media, resource, repeated)
    return obj, Decoding(body, media, repeated or (), False, again)


async def read_again(body: bytes, media: Media, resource: BodyKind) -> dict[str, Any]:
    """Decode a body that was decoded before."""
    obj, _ = await read(body, media, resource, strict=False)
    return obj


def decode(body: bytes, media: Media, resource: BodyKind, repeated: list[str] | None = None) -> dict[str, Any]:
    """Decode a body into an object of the resource's kind.

    Args:
        body: as sent.
        media: its type.
        resource: the kind.
        repeated: filled with the messages about duplicate keys; None: duplicate keys are not looked for.

    Raises:
        StatusError: 400 for what cannot be decoded or is of another version or kind, 422 for another kind of a custom resource.
    """
    if media == "protobuf":
        return _decode_protobuf(body, resource)
    try:
        if media == "json":
            if repeated is None:
                obj = decode_json(body)
            else:
                obj, repeated[:] = decode_json_strict(body)
        else:
            obj, strict_errors = decode_yaml_strict(body)
            if repeated is not None:
                repeated += strict_errors
    except ValueError as error:
        detail = f"couldn't get version/kind; json parse error: {error} ({excerpt(body)})"
        raise errors.bad_request(unrecognized(resource, detail)) from error
    if not isinstance(obj, dict):
        detail = f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(obj)} into Go value of type "
        raise errors.bad_request(unrecognized(resource, f"{detail}struct ({excerpt(body)})"))
    check_kind(obj, resource, body)
    return obj


def _decode_protobuf(body: bytes, resource: BodyKind) -> dict[str, Any]:
    try:
        envelope = decode_envelope(body)
    except ProtobufError as error:
        raise errors.bad_request(unrecognized(resource, f"{error} ({excerpt(body)})")) from error
    obj: dict[str, Any] = {"kind": envelope.kind, "apiVersion": envelope.api_version}
    check_kind(obj, resource)
    try:
        obj.update(protobuf.decode(message_of()[resource.group_version, resource.kind], envelope.raw))
    except ProtobufError as error:
        raise cannot_be_handled(resource, str(error)) from error
    return obj


def decode_delete_options_message(body: bytes) -> dict[str, Any]:
    """Decode DeleteOptions in protobuf, of any API version as in JSON.

    Raises:
        ProtobufError: not such a body.
    """
    envelope = decode_envelope(body)
    if envelope.kind not in {"", "DeleteOptions"}:
        return {"kind": envelope.kind}
    return protobuf.decode(META + "DeleteOptions", envelope.raw)
