"""Published models of built-in kinds as the decoders of these kinds apply them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX, models
from kcp_py.schema.documents import Schema, map_parts

_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ANY: Final = {"x-kubernetes-preserve-unknown-fields": True}

_DECODED_AS: Final[Mapping[str, Schema]] = {
    # Free-form values: upstream decodes them into raw JSON, and publishes no schema of them.
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object", **_ANY},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", **_ANY},
    _APIEXTENSIONS + "JSON": _ANY,
    # Published as `oneOf`, which costs two validations and gives a bad message.
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
_JSON_SCHEMA: Final = _APIEXTENSIONS + "JSONSchemaProps"
_SCHEMA_OR_ELSE: Final[Mapping[str, Schema]] = {
    # Either a schema, which is pruned, or a value of another type, which is not. Go decodes it in a second step.
    _JSON_SCHEMA + "OrArray": {"items": {"$ref": REFERENCE_PREFIX + _JSON_SCHEMA}, "x-lenient": True},
    _JSON_SCHEMA + "OrBool": {"x-lenient": True},
    _JSON_SCHEMA + "OrStringArray": {"items": {}, "x-lenient": True},
}
_NOT_DECODED: Final = frozenset({"format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"})
"""Keywords for clients, which the decoder of a typed kind ignores."""
_RECURSIVE: Final = frozenset({_JSON_SCHEMA, *_SCHEMA_OR_ELSE})


class ValidationSchema(NamedTuple):
    """A model as a decoder applies it."""

    document: Schema
    definitions: Mapping[str, Schema]
    """The targets of the references in the document. Only recursive references remain."""


@cache
def validation_schema(name: str) -> ValidationSchema:
    """A model as a decoder applies it. References are resolved; keywords that strategies check are left out.

    A missing field of a typed kind is its zero value. Its strategy says which fields are required, and its codec checks formats, so that
    `required` and `format` are dropped, except in the kinds that are validated by their schema alone (`io.kcp.`).
    """
    left: dict[str, Schema] = {}
    document = _resolved(models()[name], left, keep_required=name.startswith("io.kcp."))
    return ValidationSchema(document, left)


def _resolved(schema: Schema, left: dict[str, Schema], *, keep_required: bool) -> Schema:
    if (reference := schema.get("$ref")) is not None:
        name = reference.removeprefix(REFERENCE_PREFIX)
        if name in _RECURSIVE:
            if name not in left:
                left[name] = {}  # holds its place while its own content is resolved
                resolved = _resolved(models()[_JSON_SCHEMA], left, keep_required=False)
                if name != _JSON_SCHEMA:
                    untyped = {key: value for key, value in resolved.items() if key != "type"}
                    resolved = {**untyped, **_SCHEMA_OR_ELSE[name]}
                left[name] = resolved
            return schema
        return _DECODED_AS.get(name) or _resolved(models()[name], left, keep_required=False)
    kept = {key: value for key, value in schema.items() if key not in _NOT_DECODED or keep_required}
    return map_parts(kept, lambda part: _resolved(part, left, keep_required=keep_required))
