"""From a decoded document to an object of its kind: of the right kind and types, pruned, with defaults. Large ones are handled in threads.

Source: k8s.io/apiserver decodes with the strict serializer of the kind; apiextensions-apiserver prunes and defaults custom resources in
`schemaCoercingDecoder` and `unstructuredDefaulter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import DecodingError
from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apimachinery.meta.decoding import is_usual
from kcp_py.apimachinery.meta.objectmeta import deduplicate_owner_references, prune_object_meta, type_problem
from kcp_py.apimachinery.serializer.json.codec import MAX_STRICT_ERRORS, decode_pairs, sorted_pairs
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml
from kcp_py.registry.rendering import CLUSTER_ANNOTATION
from kcp_py.registry.writerequest import NO_BODY, Decoding
from kcp_py.schema.structural.default import MAX_FILLED, TooManyDefaultsError
from kcp_py.schema.structural.embedded import metadata_mistake
from kcp_py.schema.structural.settled import Settler

_EXCERPT_BYTES: Final = 30
_YAML_ERRORS: Final = "yaml: unmarshal errors:\n  "


class BodySchema(Protocol):
    """The part of a schema that decodes."""

    def type_error(self, obj: dict[str, Any]) -> FieldError | None:
        """See `schema.contract.CompiledSchema.type_error`."""
        ...

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """See `schema.contract.CompiledSchema.prune`."""
        ...

    def strict_errors(self, document: Any) -> list[str]:
        """See `schema.contract.CompiledSchema.strict_errors`."""
        ...

    def default(self, obj: dict[str, Any], limit: int = MAX_FILLED) -> None:
        """See `schema.contract.CompiledSchema.default`."""
        ...


class BodyKind(Protocol):
    """What a body is decoded as: a served resource, or the kind of one of its subresources."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def group_version(self) -> str:
        """As in `apiVersion`."""
        ...

    @property
    def accepts(self) -> Sequence[str]:
        """Further values of `apiVersion` that mean the same."""
        ...

    @property
    def typed(self) -> bool:
        """Whether the kind is compiled into clients."""
        ...

    @property
    def schema(self) -> BodySchema: ...


def check_kind(obj: dict[str, Any], resource: BodyKind, body: bytes = b"") -> None:
    """Compare apiVersion and kind with what the URL asks for. Typed kinds may leave them out; they are filled in."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if resource.typed:
        if not kind:
            obj["kind"] = kind = resource.kind
        if not api_version:
            obj["apiVersion"] = api_version = resource.group_version
    if not kind or not isinstance(kind, str):
        raise errors.bad_request(_missing(resource, "Kind", body))
    if api_version != resource.group_version and api_version not in resource.accepts:
        if not isinstance(api_version, str) or not api_version:
            raise errors.bad_request(_missing(resource, "apiVersion", body))
        detail = f"the API version in the data ({api_version}) does not match the expected API version ({resource.group_version})"
        raise errors.bad_request(detail)
    if kind != resource.kind:
        if resource.typed:
            detail = f'no kind "{kind}" is registered for version "{resource.group_version}" in scheme "kcp-py"'
            raise errors.bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {detail}')
        metadata = obj.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        group_kind = f"{kind}.{resource.group}" if resource.group else kind
        raise errors.invalid(group_kind, str(name), [invalid("kind", kind, f"must be {resource.kind}")])


def check_metadata(obj: dict[str, Any], resource: BodyKind) -> None:
    """Refuse metadata of the wrong types, as a typed decoder does.

    Raises:
        StatusError: 400.
    """
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    # The metadata of a custom resource are decoded separately, as those of an embedded one.
    problem = type_problem(obj, resource.kind) if resource.typed else metadata_mistake(obj["metadata"])
    if problem:
        raise cannot_be_handled(resource, problem)


def cannot_be_handled(resource: BodyKind, problem: str) -> DecodingError:
    """400 for a body of a resource's kind whose content does not have the types of the kind."""
    return DecodingError(resource.kind, resource.version, problem)


async def conform(
    obj: dict[str, Any],
    resource: BodyKind,
    decoding: Decoding = NO_BODY,
    *,
    field_validation: str,
    warnings: list[str],
    settler: Settler | None = None,
) -> dict[str, Any] | None:
    """Check the metadata of an object, prune unknown fields, report them as `field_validation` says, and fill in defaults; in place.

    Args:
        obj: decoded, and of the kind.
        resource: its kind.
        decoding: how it was decoded. For the result of a patch, `repeated` has the faults of the patch itself.
        field_validation: `Strict`, `Warn` (also when empty) or `Ignore`.
        warnings: unknown and duplicate fields are appended under `Warn`, repeated owner references always.
        settler: of the schema, if the object is likely to have all defaults already. It is not asked about large objects.

    Returns:
        What `settler` has found of the object: parts of it that are valid. None where that is not known.

    Raises:
        StatusError: 400 for metadata of the wrong types, for unknown or duplicate fields under `Strict`, and for values of the wrong type
            in typed kinds; 413 where defaults make it too large.
    """
    large = decoding.large
    settled = None
    if large:
        issues = await offload(_prune, obj, resource, decoding, strict=field_validation != "Ignore")
    else:
        if settler is not None:
            settled = settler.settled(obj)
        issues = _prune(obj, resource, decoding, strict=field_validation != "Ignore", settled=settled is not None)
    if issues and field_validation == "Strict":
        raise cannot_be_handled(resource, f"strict decoding error: {', '.join(issues[:MAX_STRICT_ERRORS])}")
    if issues:
        warnings.extend(warning_lines(issues))
    if not large and settled is None:
        try:
            resource.schema.default(obj, Inline.TRANSFORM)
        except TooManyDefaultsError:
            large = True
    if large:
        try:
            await offload(resource.schema.default, obj)
        except TooManyDefaultsError as error:
            raise errors.too_large(MAX_FILLED) from error
    if "ownerReferences" in obj["metadata"] and (warning := deduplicate_owner_references(obj["metadata"])):
        warnings.append(warning)
    return settled


def _prune(obj: dict[str, Any], resource: BodyKind, decoding: Decoding, *, strict: bool, settled: bool = False) -> Sequence[str]:
    """Check the metadata and drop fields that the kind does not have, in place. Of a `settled` object these are metadata only.

    Returns:
        The faults of the body, in upstream's order; empty unless they are requested.

    Raises:
        StatusError: 400 for values of the wrong type.
    """
    unknown = _prune_metadata(obj, resource)
    if mistake := resource.schema.type_error(obj):
        raise cannot_be_handled(resource, str(mistake))
    if not settled:
        unknown += resource.schema.prune(obj)
    if not strict or not (unknown or decoding.repeated):
        return ()
    if resource.typed:
        if decoding.body is not None:
            return _struct_errors(decoding.body, decoding, resource)
        unknown = sorted(set(unknown))
    return [*decoding.repeated, *(f'unknown field "{path}"' for path in unknown)]


def _prune_metadata(obj: dict[str, Any], resource: BodyKind) -> list[str]:
    """Check the metadata, and drop what they do not have and what the server says itself, in place; the unknown fields.

    Raises:
        StatusError: 400 for values of the wrong type.
    """
    metadata = obj.get("metadata")
    if type(metadata) is dict and is_usual(metadata):
        annotations = metadata.get("annotations")
        if annotations is not None:
            annotations.pop(CLUSTER_ANNOTATION, None)
            if not annotations:
                del metadata["annotations"]
        return []
    check_metadata(obj, resource)
    metadata = obj["metadata"]
    annotations = metadata.get("annotations")
    if annotations is not None:
        annotations.pop(CLUSTER_ANNOTATION, None)
    metadata.pop("clusterName", None)
    # Custom resources are maps when their metadata are decoded, and maps are written in order. So are the results of patches.
    return sorted(f"metadata.{name}" for name in prune_object_meta(metadata))


def _struct_errors(body: bytes, decoding: Decoding, resource: BodyKind) -> Sequence[str]:
    """The strict decoding errors of the body of a typed kind; YAML is converted to JSON before."""
    if decoding.media == "yaml":
        return [*decoding.repeated, *resource.schema.strict_errors(sorted_pairs(decode_yaml(body)))]
    return resource.schema.strict_errors(decode_pairs(body)) if decoding.media == "json" else ()


def warning_lines(issues: Sequence[str]) -> Sequence[str]:
    """The faults of a body, as warnings. A header has one line: each line of a YAML error is a warning of its own."""
    lines = [line for issue in issues[:MAX_STRICT_ERRORS] for line in issue.removeprefix(_YAML_ERRORS).split("\n  ")]
    return lines[:MAX_STRICT_ERRORS]


def unrecognized(resource: BodyKind, detail: str) -> str:
    return f"the object provided is unrecognized (must be of type {resource.kind}): {detail}"


def _missing(resource: BodyKind, member: str, body: bytes) -> str:
    return unrecognized(resource, f"Object '{member}' is missing in '{body.decode(errors='replace')}' ({excerpt(body)})")


def excerpt(body: bytes) -> str:
    """The first bytes of a body: as they are where it looks like JSON, else in hexadecimal (apiserver `summarizeData`)."""
    if not body:
        return "<empty>"
    head = body[:_EXCERPT_BYTES]
    shown = head.decode(errors="replace") if body.startswith(b"{") else head.hex()
    return f"{shown} ..." if len(body) > _EXCERPT_BYTES else shown
