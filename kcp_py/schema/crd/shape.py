"""The types of the fields that the rules for CustomResourceDefinitions read.

Upstream decodes into Go structs before it validates, so its rules never see a list where they expect a text. Ours work on decoded JSON:
values of the wrong type are refused by this schema first. Fields that no rule reads are not listed.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from kcp_py.schema.compilation import StructuralSchema, compile_schema

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_WHOLE: Final = {"type": "integer"}
_NUMBER: Final = {"type": "number"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_ANY: Final[dict[str, Any]] = {}
_PROPS: Final = {"$ref": "#/definitions/JSONSchemaProps"}
_OPTIONAL_PROPS: Final = {"anyOf": [_PROPS]}
_PROPS_LIST: Final = {"type": "array", "items": _PROPS}
_PROPS_OR_FLAG: Final = {"anyOf": [_FLAG, _PROPS]}
_PROPS_MAP: Final = {"type": "object", "additionalProperties": _PROPS}


def _optional(properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    # Go reads null as the zero value, wherever a field is.
    return {name: part if "$ref" in part else {**part, "nullable": True} for name, part in properties.items()}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": _optional(properties)}


_JSON_SCHEMA_PROPS: Final = {
    "type": "object",
    "properties": _optional(
        {
            **dict.fromkeys(("id", "$schema", "$ref", "description", "type", "format", "title", "pattern"), _TEXT),
            **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBER),
            **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _WHOLE),
            **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), _FLAG),
            "enum": {"type": "array"},
            "required": _TEXTS,
            "default": _ANY,
            "not": _OPTIONAL_PROPS,
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), _PROPS_LIST),
            **dict.fromkeys(("properties", "patternProperties", "definitions"), _PROPS_MAP),
            "items": {"anyOf": [_PROPS, _PROPS_LIST]},
            "additionalProperties": _PROPS_OR_FLAG,
            "additionalItems": _PROPS_OR_FLAG,
            "dependencies": {"type": "object", "additionalProperties": {"anyOf": [_PROPS, _TEXTS]}},
            **dict.fromkeys(
                ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), _FLAG
            ),
            **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), _TEXT),
            "x-kubernetes-list-map-keys": _TEXTS,
            "x-kubernetes-validations": {
                "type": "array",
                "items": _record(rule=_TEXT, message=_TEXT, messageExpression=_TEXT, reason=_TEXT, fieldPath=_TEXT, optionalOldSelf=_FLAG),
            },
        }
    ),
}

_NAMES: Final = _record(plural=_TEXT, singular=_TEXT, kind=_TEXT, listKind=_TEXT, shortNames=_TEXTS, categories=_TEXTS)

_VERSION: Final = _record(
    name=_TEXT,
    served=_FLAG,
    storage=_FLAG,
    deprecated=_FLAG,
    deprecationWarning=_TEXT,
    schema=_record(openAPIV3Schema=_OPTIONAL_PROPS),
    subresources=_record(
        status={"type": "object"}, scale=_record(specReplicasPath=_TEXT, statusReplicasPath=_TEXT, labelSelectorPath=_TEXT)
    ),
    additionalPrinterColumns={
        "type": "array",
        "items": _record(name=_TEXT, type=_TEXT, format=_TEXT, description=_TEXT, priority=_WHOLE, jsonPath=_TEXT),
    },
    selectableFields={"type": "array", "items": _record(jsonPath=_TEXT)},
)

_WEBHOOK: Final = _record(
    conversionReviewVersions=_TEXTS,
    clientConfig=_record(url=_TEXT, caBundle=_TEXT, service=_record(name=_TEXT, namespace=_TEXT, path=_TEXT, port=_WHOLE)),
)

_CRD: Final = _record(
    metadata=_record(name=_TEXT, annotations={"type": "object", "additionalProperties": _TEXT}),
    spec=_record(
        group=_TEXT,
        scope=_TEXT,
        names=_NAMES,
        preserveUnknownFields=_FLAG,
        versions={"type": "array", "items": _VERSION},
        conversion=_record(strategy=_TEXT, webhook=_WEBHOOK),
    ),
    status=_record(
        storedVersions=_TEXTS,
        acceptedNames=_NAMES,
        conditions={"type": "array", "items": _record(type=_TEXT, status=_TEXT)},
    ),
)


@cache
def crd_shape() -> StructuralSchema:
    """The schema, compiled once."""
    return compile_schema(_CRD, definitions={"JSONSchemaProps": _JSON_SCHEMA_PROPS}, custom=False)
