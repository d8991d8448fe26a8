"""What a schema is to CEL: a type for each node, with bounds on its size where the schema or the size of a request gives one.

Source: apiserver `pkg/cel/common/schemas.go` (`SchemaDeclType`) and `pkg/cel/limits.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.schema.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Field, Type, list_of, map_of, object_of
from kcp_py.schema.rules.property_names import escape

__all__ = ["MAX_REQUEST_SIZE", "DeclaredType", "declare"]

Schema = Mapping[str, Any]

MAX_REQUEST_SIZE: Final = 3 * 1024 * 1024
"""Bytes of a request's body: what bounds every value whose schema does not."""

_MAX_TEXT: Final = MAX_REQUEST_SIZE - 2
_MIN_STRING: Final = 2
_MIN_CONTAINER: Final = 2
# A boolean is at least `true`, a date and a time are at least that many characters in quotes, a duration is at least `"0s"`.
_MIN_BOOL: Final = 4
_MIN_DATE: Final = 12
_MIN_TIME: Final = 22
_MIN_DURATION: Final = 4
_MAX_DURATION: Final = 32
_MAX_TIME: Final = 29
_BYTES_OF_A_CHARACTER: Final = 4
_METADATA: Final = {"name": STRING, "generateName": STRING}


class DeclaredType(NamedTuple):
    """A node's type.

    Attributes:
        type: in CEL.
        min_size: bytes that the smallest value takes in JSON.
    """

    type: Type
    min_size: int


def declare(schema: Schema, *, resource: bool = False) -> DeclaredType | None:
    """The type of a node; None: CEL cannot see it, because the schema does not say what it is.

    Args:
        schema: the node as its document has it.
        resource: the root of an object or of an embedded one: apiVersion, kind and the name are there without being declared.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DeclaredType(_sized(DYN, _MAX_TEXT), 1)
    kind = "object" if resource else schema.get("type")
    match kind:
        case "array":
            return _array(schema)
        case "object":
            return _object(schema, resource=resource)
        case "string":
            return _text(schema)
        case "boolean":
            return DeclaredType(BOOL, _MIN_BOOL)
        case "number":
            return DeclaredType(DOUBLE, 1)
        case "integer":
            return DeclaredType(INT, 1)
        case _:
            return None


def _sized(kind: Type, size: int) -> Type:
    """A scalar type with a bound."""
    return Type(kind.kind, kind.name, max_size=size)


def _array(schema: Schema) -> DeclaredType | None:
    """A list; its elements take at least themselves and a comma."""
    items = schema.get("items")
    element = declare(items, resource=bool(items.get("x-kubernetes-embedded-resource"))) if isinstance(items, Mapping) else None
    if element is None:
        return None
    size = schema.get("maxItems")
    most = max(int(size), 0) if size is not None else (MAX_REQUEST_SIZE - 2) // (element.min_size + 1)
    kind = list_of(
        element.type,
        max_size=most,
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
    )
    return DeclaredType(kind, _MIN_CONTAINER)


def _object(schema: Schema, *, resource: bool) -> DeclaredType | None:
    """A map where there is a schema for all values, else an object."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        value = declare(additional, resource=bool(additional.get("x-kubernetes-embedded-resource")))
        if value is None:
            return None
        size = schema.get("maxProperties")
        most = max(int(size), 0) if size is not None else (MAX_REQUEST_SIZE - 2) // (value.min_size + 6)
        return DeclaredType(map_of(STRING, value.type, max_size=most), _MIN_CONTAINER)
    properties = dict(schema.get("properties") or {})
    if resource:
        properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        properties["metadata"] = {"type": "object", "properties": {name: {"type": "string"} for name in _METADATA}}
    required = frozenset(schema.get("required") or ())
    fields: dict[str, Field] = {}
    smallest = _MIN_CONTAINER
    for name, child in properties.items():
        declared = declare(child, resource=bool(child.get("x-kubernetes-embedded-resource")))
        if declared is None:
            continue
        escaped = escape(name)
        if escaped is not None:
            fields[escaped] = Field(declared.type, name)
        if name in required and child.get("default") is None:
            smallest += len(name) + declared.min_size + 4
    return DeclaredType(object_of("object", fields), smallest)


def _text(schema: Schema) -> DeclaredType:
    """A string, or what its format makes of it."""
    length = schema.get("maxLength")
    match schema.get("format"):
        case "byte":
            return DeclaredType(_sized(BYTES, max(int(length), 0) if length is not None else _MAX_TEXT), _MIN_STRING)
        case "duration":
            return DeclaredType(_sized(DURATION, _MAX_DURATION), _MIN_DURATION)
        case "date":
            return DeclaredType(_sized(TIMESTAMP, _MIN_DATE), _MIN_DATE)
        case "date-time":
            return DeclaredType(_sized(TIMESTAMP, _MAX_TIME), _MIN_TIME)
    if length is not None:
        most = max(int(length), 0) * _BYTES_OF_A_CHARACTER
    elif choices := schema.get("enum"):
        most = max(len(choice.encode()) if isinstance(choice, str) else len(orjson.dumps(choice)) for choice in choices)
    else:
        most = _MAX_TEXT
    return DeclaredType(_sized(STRING, most), _MIN_STRING)
