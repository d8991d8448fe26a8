"""Models of custom kinds: the schema of a CRD's version as OpenAPI v3 shows it in full, and as far as v2 can say it.

Source: apiextensions-apiserver `pkg/controller/openapi/builder` (`buildKubeNative`) and `v2/conversion.go` (`ToStructuralOpenAPIV2`).
v2 leaves out keywords that kubectl would misread: it has no unions, does not know null, and takes a typed field for a complete
description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX
from kcp_py.schema.documents import JUNCTORS, VALUE_PARTS, child_schema, map_parts
from kcp_py.schema.publish.kinds import META, PublishedKind

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]
# Upstream publishes no defaults in v2 (kube-openapi `handler.PruneDefaults`).
_UNKNOWN_TO_V2: Final = frozenset({*JUNCTORS, "not", "nullable", "default"})
_V2_PREFIX: Final = "#/definitions/"

API_VERSION: Final = {
    "description": (
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the "
        "latest internal value, and may reject unrecognized values. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
    ),
    "type": "string",
}
KIND: Final = {
    "description": (
        "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client "
        "submits requests to. Cannot be updated. In CamelCase. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
    ),
    "type": "string",
}
_EMBEDDED_API_VERSION: Final = (
    "apiVersion defines the versioned schema of this representation of an object. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_EMBEDDED_KIND: Final = (
    "kind is a string value representing the type of this object. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_METADATA_DESCRIPTION: Final = (
    "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_LIST_METADATA_DESCRIPTION: Final = (
    "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)


def full_schema(kind: PublishedKind) -> dict[str, Any]:
    """The model in v3: the schema as it is, with what every object has and with shorthands written out."""
    document = kind.document
    schema: dict[str, Any] = {"type": "object", _PRESERVE: True} if not document else _unfolded(document)
    return _rooted(schema, kind, REFERENCE_PREFIX)


def reduced_schema(kind: PublishedKind) -> dict[str, Any]:
    """The model in v2: nothing but `type: object` where the root preserves unknown fields."""
    document = kind.document
    if not document or document.get(_PRESERVE):
        schema: dict[str, Any] = {"type": "object"}
        if description := document.get("description"):
            schema["description"] = description
        return {**schema, **kind.extensions}
    return _rooted(_reduced(document), kind, _V2_PREFIX)


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The model of a built-in kind in v2, made of the one in v3: a description accompanies a reference, and there are no defaults."""
    result: dict[str, Any] = {}
    for key, value in map_parts(schema, plain_schema).items():
        match key, value:
            case "default", _:
                continue
            case ("allOf", [{"$ref": str() as target}]) | ("$ref", str() as target):
                result["$ref"] = target.replace(REFERENCE_PREFIX, _V2_PREFIX)
            case _:
                result[key] = value
    return result


def list_schema(kind: PublishedKind, prefix: str) -> dict[str, Any]:
    """The model of the list."""
    return {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": API_VERSION,
            "items": {
                "description": f"List of {kind.plural}. More info: {_CONVENTIONS}",
                "type": "array",
                "items": {"$ref": prefix + kind.model},
            },
            "kind": KIND,
            "metadata": _described_reference(META + "ListMeta", prefix, _LIST_METADATA_DESCRIPTION),
        },
        "x-kubernetes-group-version-kind": [{**kind.group_version_kind, "kind": kind.list_kind}],
    }


_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"


def _rooted(schema: dict[str, Any], kind: PublishedKind, prefix: str) -> dict[str, Any]:
    schema["properties"] = {**(schema.get("properties") or {}), **_object_fields(prefix)}
    schema.setdefault("type", "object")
    schema.update(kind.extensions)
    return schema


def _object_fields(prefix: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _described_reference(META + "ObjectMeta", prefix, _METADATA_DESCRIPTION),
    }


def _embed(schema: dict[str, Any], prefix: str) -> None:
    """Add, in place, the fields that every embedded object has, in the place of those in its schema (`addEmbeddedProperties`)."""
    fields = {
        "apiVersion": {"description": _EMBEDDED_API_VERSION, "type": "string"},
        "kind": {"description": _EMBEDDED_KIND, "type": "string"},
        "metadata": _described_reference(META + "ObjectMeta", prefix, _METADATA_DESCRIPTION),
    }
    schema["properties"] = {**(schema.get("properties") or {}), **fields}
    required = schema.get("required") or []
    schema["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]


def _described_reference(name: str, prefix: str, description: str) -> dict[str, Any]:
    reference = {"$ref": prefix + name}
    if prefix == _V2_PREFIX:  # v2 documents of Kubernetes put the text next to the reference, which v3 does not allow
        return {"description": description, **reference}
    return {"allOf": [reference], "description": description}


def _unfolded(schema: Mapping[str, Any]) -> dict[str, Any]:
    result = map_parts(schema, _unfolded)
    if schema.get(_EMBEDDED):
        _embed(result, REFERENCE_PREFIX)
    if schema.get(_INT_OR_STRING) and "anyOf" not in schema and "allOf" not in schema:
        result["anyOf"] = _INT_OR_STRING_TYPES
    return result


def _reduced(schema: Mapping[str, Any]) -> dict[str, Any]:
    preserves, embedded = bool(schema.get(_PRESERVE)), bool(schema.get(_EMBEDDED))
    untyped = bool(schema.get("nullable")) or (preserves and not embedded)
    result = {key: value for key, value in schema.items() if key not in _UNKNOWN_TO_V2}
    if untyped:
        result.pop("type", None)
    if preserves:
        for key in VALUE_PARTS:
            if key == "properties" or isinstance(result.get(key), Mapping):
                result.pop(key, None)
    else:
        result = map_parts(result, _reduced)
    if "required" in result:
        # kubectl would ask for a field that may also be null.
        properties = child_schema(schema, "properties") or {}
        result["required"] = [name for name in result["required"] if not (child_schema(properties, name) or {}).get("nullable")]
        if not result["required"]:
            del result["required"]
    if embedded and not preserves:  # else kubectl would take these fields for all that there are
        _embed(result, _V2_PREFIX)
    return result
