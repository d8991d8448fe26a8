"""Parts of CRDs as messages print them: upstream validates structs without JSON names, so each member has its Go name, set or not.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/types.go` and `types_jsonschema.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, Printed, invalid
from kcp_py.golang.json import go_json
from kcp_py.schema.structural.nodes import Rule, read_rule

_Print = Callable[[Any], Any]


def invalid_struct(field: str, value: object, detail: str) -> FieldError:
    """`invalid` with a value that keeps the order of its members."""
    return invalid(field, Printed(go_json(value)), detail)


def printed_rule(rule: Rule) -> dict[str, Any]:
    """A rule of `x-kubernetes-validations`."""
    return {
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self,
    }


def printed_versions(versions: Sequence[Mapping[str, Any]], hoisted: frozenset[str]) -> list[dict[str, Any]]:
    """`spec.versions`, without what all versions have in common: it moved to the specification."""
    return [_version({name: part for name, part in version.items() if name not in hoisted}) for version in versions]


def _version(version: Mapping[str, Any]) -> dict[str, Any]:
    validation, subresources = version.get("schema"), version.get("subresources")
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None if validation is None else {"OpenAPIV3Schema": _optional(printed_schema)(validation.get("openAPIV3Schema"))},
        "Subresources": None if subresources is None else _subresources(subresources),
        "AdditionalPrinterColumns": _list(_column)(version.get("additionalPrinterColumns")),
        "SelectableFields": _list(_selectable)(version.get("selectableFields")),
    }


def _subresources(subresources: Mapping[str, Any]) -> dict[str, Any]:
    scale = subresources.get("scale")
    return {
        "Status": None if subresources.get("status") is None else {},
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath") or "",
            "StatusReplicasPath": scale.get("statusReplicasPath") or "",
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: column.get(name[0].lower() + name[1:]) or "" for name in ("Name", "Type", "Format", "Description")}
    return {**texts, "Priority": column.get("priority") or 0, "JSONPath": column.get("jsonPath") or ""}


def _selectable(selectable: Mapping[str, Any]) -> dict[str, Any]:
    return {"JSONPath": selectable.get("jsonPath") or ""}


def printed_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema."""
    return {name: show(schema.get(key)) for name, key, show in _MEMBERS}


def members_set(schema: Mapping[str, Any]) -> list[str]:
    """The Go names of the members of a schema that are there: texts and flags that are not empty, and anything else that is not null."""
    return [
        name
        for name, key, show in _MEMBERS
        if (value := schema.get(key)) is not None and (bool(value) or (show is not _text and show is not _flag))
    ]


def _optional(show: _Print) -> _Print:
    return lambda value: None if value is None else show(value)


def _list(show: _Print) -> _Print:
    return _optional(lambda values: [show(value) for value in values])


def _map(show: _Print) -> _Print:
    return _optional(lambda values: {name: show(values[name]) for name in sorted(values)})


def _value(value: Any) -> Any:
    """Any JSON, whose maps are printed in order of their keys."""
    if type(value) is dict:
        return {name: _value(value[name]) for name in sorted(value)}
    if type(value) is list:
        return [_value(part) for part in value]
    return value


def _text(value: Any) -> str:
    return value or ""


def _flag(value: Any) -> bool:
    return bool(value)


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"Schema": printed_schema(value), "JSONSchemas": None}
    return {"Schema": None, "JSONSchemas": [printed_schema(part) for part in value]}


def _schema_or_flag(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"Allows": True, "Schema": printed_schema(value)}
    return {"Allows": bool(value), "Schema": None}


def _dependency(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"Schema": printed_schema(value), "Property": None}
    return {"Schema": None, "Property": value}


def _documentation(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"Description": value.get("description") or "", "URL": value.get("url") or ""}


_SCHEMA: Final = _optional(printed_schema)
_SCHEMAS: Final = _list(printed_schema)
_SCHEMA_MAP: Final = _map(printed_schema)
_VALUE: Final = _optional(_value)

_MEMBERS: Final[tuple[tuple[str, str, _Print], ...]] = (
    ("ID", "id", _text),
    ("Schema", "$schema", _text),
    ("Ref", "$ref", _VALUE),
    ("Description", "description", _text),
    ("Type", "type", _text),
    ("Nullable", "nullable", _flag),
    ("Format", "format", _text),
    ("Title", "title", _text),
    ("Default", "default", _VALUE),
    ("Maximum", "maximum", _VALUE),
    ("ExclusiveMaximum", "exclusiveMaximum", _flag),
    ("Minimum", "minimum", _VALUE),
    ("ExclusiveMinimum", "exclusiveMinimum", _flag),
    ("MaxLength", "maxLength", _VALUE),
    ("MinLength", "minLength", _VALUE),
    ("Pattern", "pattern", _text),
    ("MaxItems", "maxItems", _VALUE),
    ("MinItems", "minItems", _VALUE),
    ("UniqueItems", "uniqueItems", _flag),
    ("MultipleOf", "multipleOf", _VALUE),
    ("Enum", "enum", _VALUE),
    ("MaxProperties", "maxProperties", _VALUE),
    ("MinProperties", "minProperties", _VALUE),
    ("Required", "required", _VALUE),
    ("Items", "items", _optional(_items)),
    ("AllOf", "allOf", _SCHEMAS),
    ("OneOf", "oneOf", _SCHEMAS),
    ("AnyOf", "anyOf", _SCHEMAS),
    ("Not", "not", _SCHEMA),
    ("Properties", "properties", _SCHEMA_MAP),
    ("AdditionalProperties", "additionalProperties", _optional(_schema_or_flag)),
    ("PatternProperties", "patternProperties", _SCHEMA_MAP),
    ("Dependencies", "dependencies", _map(_dependency)),
    ("AdditionalItems", "additionalItems", _optional(_schema_or_flag)),
    ("Definitions", "definitions", _SCHEMA_MAP),
    ("ExternalDocs", "externalDocs", _optional(_documentation)),
    ("Example", "example", _VALUE),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _VALUE),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _flag),
    ("XIntOrString", "x-kubernetes-int-or-string", _flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", _VALUE),
    ("XListType", "x-kubernetes-list-type", _VALUE),
    ("XMapType", "x-kubernetes-map-type", _VALUE),
    ("XValidations", "x-kubernetes-validations", _list(lambda rule: printed_rule(read_rule(rule)))),
)
