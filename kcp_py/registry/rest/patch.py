"""PATCH of an object, its status or its Scale: JSON patch, merge patch, and strategic merge patch for typed kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import DecodingError, StatusError
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.apimachinery.meta.options import PatchOptions
from kcp_py.apimachinery.patches import json_patch, merge_patch, strategic_merge_patch
from kcp_py.apimachinery.serializer.json.codec import decode_json, decode_json_strict
from kcp_py.golang.json import go_json
from kcp_py.golang.types import go_text
from kcp_py.registry.rest.conform import BodyKind, cannot_be_handled, check_kind, conform
from kcp_py.registry.rest.kinds import body_kind
from kcp_py.registry.rest.update import check_identity, other_uid, scaled
from kcp_py.registry.scale import scale_of
from kcp_py.registry.store import Access, Current, update
from kcp_py.registry.store.access import StoreResult
from kcp_py.registry.writerequest import Decoding, FieldManager, Resolved, WriteRequest

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_UNTYPED_PATCHES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_TYPED_PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


Reader = Callable[[], Awaitable[dict[str, Any]]]
"""Gives the object that is patched, as clients see it, anew at each call, for the callee to keep."""


class Patch(NamedTuple):
    """A decoded patch."""

    type: str
    """Its media type."""
    document: Any
    """None for an apply."""
    faults: Sequence[str]
    """The faults of its form, where the client requests them."""
    body: bytes
    """As it was sent: errors show it."""


def patch_types(target: Resolved) -> Sequence[str]:
    """The media types of patches that a target takes."""
    resource = target.served.resource
    if target.subresource and target.rest is not None and body_kind(target) is not resource:
        # Owners of fields need a type, and the kind of the subresource has none; the storage may know what its fields are elsewhere.
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH) if target.rest.applies else (JSON_PATCH, MERGE_PATCH)
    return _UNTYPED_PATCHES if resource.strategic_merge is None else _TYPED_PATCHES


def accepted(request: WriteRequest, change: Patch) -> WriteRequest:
    """The request of a patch, of a type that its target takes. An apply writes the owners of the fields into the object itself.

    Raises:
        StatusError: 415.
    """
    if change.type not in (types := patch_types(request.target)):
        raise errors.unsupported_media_type(types)
    context, target, options, size, manager, decoding = request
    if change.type == APPLY_PATCH and manager is not None:
        # Faster than `_replace`.
        return WriteRequest(context, target, options, size, FieldManager(manager.name, manager.time, applied=True), decoding)
    return request


async def read_patch(body: bytes, patch_type: str, *, strict: bool) -> Patch:
    """Decode a patch.

    Args:
        body: as sent.
        patch_type: its media type; the configuration of an apply is decoded when it is applied.
        strict: whether the client asks for repeated keys and unknown fields.

    Raises:
        StatusError: 400.
    """
    if patch_type == APPLY_PATCH:
        return Patch(patch_type, None, (), body)
    large = len(body) > Inline.PARSE["json"]
    document, faults = await offload(_decode, body, patch_type, strict=strict) if large else _decode(body, patch_type, strict=strict)
    return Patch(patch_type, document, faults, body)


async def patch(access: Access, request: WriteRequest, change: Patch) -> StoreResult:
    """Change a stored object, its status or its Scale as a patch says, against its latest state.

    Args:
        access: the store.
        request: who patches what; its options are PatchOptions.
        change: the patch.

    Raises:
        StatusError: 400, 404, 409, 422 and whatever admission says.
        StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
    """
    target = request.target
    warnings_before = len(request.warnings)
    cluster, paths = target.cluster_state.name, target.scale

    async def transform(current: Current | None) -> dict[str, Any]:
        if current is None:
            raise errors.not_found(target.resource.group_resource, target.name)
        del request.warnings[warnings_before:]

        async def read() -> dict[str, Any]:
            obj = target.resource.renderer.add_server_fields(await current.load(), current.item.mod_revision, cluster)
            return obj if paths is None else scale_of(obj, paths)

        obj = await patched(request, change, read, len(current.item.value))
        return obj if paths is None else await scaled(paths, obj, current)

    return await update(access, request, transform)


async def patched(request: WriteRequest, change: Patch, read: Reader, size: int) -> dict[str, Any]:
    """What a patch makes of an object: pruned, with defaults, and with the name and the namespace of the request.

    Args:
        request: who patches what; its options are PatchOptions.
        change: the patch.
        read: the object that is patched.
        size: bytes of that object, about.

    Raises:
        StatusError: 400 and 422.
    """
    target, options = request.target, request.options
    assert isinstance(options, PatchOptions), "a patch has its own options"
    patch_type, document, repeated, body = change
    kind = body_kind(target)
    base = await read()
    uid = (base.get("metadata") or {}).get("uid")
    large = len(body) + size > Inline.PARSE["json"] or (patch_type == JSON_PATCH and json_patch.is_heavy(document))
    if patch_type == JSON_PATCH and options.field_validation != "Ignore":
        json_patch.check_types(document)
    obj = await offload(_patched, base, document, patch_type, target) if large else _patched(base, document, patch_type, target)
    try:
        if not isinstance(obj, dict):
            detail = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct"
            raise cannot_be_handled(kind, detail)
        _check_kind(obj, kind)
        decoding = Decoding(repeated=repeated, large=large)
        await conform(obj, kind, decoding, field_validation=options.field_validation, warnings=request.warnings)
    except StatusError as error:
        if error.code != 400:
            raise
        # The refused result may have lost parts.
        refused = await read(), body, patch_type, target, error
        raise (await offload(_undecodable, *refused) if large else _undecodable(*refused)) from error
    check_identity(obj, target)
    if target.scale is None and uid and (given := obj["metadata"].get("uid")) and given != uid:
        if not target.view.keeps_metadata:
            raise other_uid(target, given)
        obj["metadata"]["uid"] = uid
    return obj


def _decode(body: bytes, patch_type: str, *, strict: bool) -> tuple[Any, list[str]]:
    try:
        document, found = decode_json_strict(body) if strict else (decode_json(body), [])
    except ValueError as error:
        raise errors.bad_request("invalid JSON patch") from error
    return document, _faults(document, found, patch_type) if strict else []


def _check_kind(obj: dict[str, Any], kind: BodyKind) -> None:
    """Refuse a result of another kind, in the words of the decoder that upstream reads it with.

    Raises:
        StatusError: 400 for a missing or typed kind, 422 for another kind of a custom resource.
    """
    if kind.typed:
        api_version, name = obj.get("apiVersion") or kind.group_version, obj.get("kind") or kind.kind
        if (api_version, name) != (kind.group_version, kind.kind):
            raise cannot_be_handled(kind, f'no kind "{name}" is registered for version "{api_version}" in scheme "kcp-py"')
    else:
        for member, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
            if not obj.get(member):
                raise cannot_be_handled(kind, f"Object '{shown}' is missing in '{go_json(obj, sort=True)}'")
    check_kind(obj, kind)


def _faults(document: Any, found: list[str], patch_type: str) -> list[str]:
    """The faults of the patch itself, for `fieldValidation`: repeated keys, and unknown ones."""
    if patch_type != JSON_PATCH:
        return found
    return [*(f"json patch {fault}" for fault in found), *(json_patch.unknown_fields(document) if isinstance(document, list) else ())]


def _undecodable(base: dict[str, Any], body: bytes, patch_type: str, target: Resolved, error: StatusError) -> StatusError:
    """422 for a result that is not of the kind: of no kind and name itself.

    Source: apiserver `jsonPatcher.applyPatchToCurrentObject`, which shows the result, and `applyPatchToObject`, which shows the patch.
    """
    document = decode_json(body)
    merged = patch_type == STRATEGIC_MERGE_PATCH
    shown = go_text(document) if merged else go_json(_patched(base, document, patch_type, target), sort=True)
    problem = error.problem if isinstance(error, DecodingError) else error.message
    return errors.invalid("", "", [invalid("patch", shown, problem)])


def _patched(base: dict[str, Any], document: Any, patch_type: str, target: Resolved) -> Any:
    """The patched object. `base` may share parts with it and is not used again."""
    match patch_type:
        case "application/json-patch+json":
            return json_patch.apply(base, document)
        case "application/merge-patch+json":
            return merge_patch.apply(base, document)
        case _:
            assert target.resource.strategic_merge is not None
            return strategic_merge_patch.apply(base, document, target.resource.strategic_merge, target.resource.models)
