"""What a schema is to CEL: a type for each node, with bounds on its size where the schema or the size of a request gives one.

Source: apiserver `pkg/cel/common/schemas.go` (`SchemaDeclType`), `pkg/cel/limits.go` and `pkg/cel/types.go` (`MaybeAssignTypeName`);
apiextensions `pkg/apiserver/schema/cel/model/schemas.go` (`WithTypeAndObjectMeta`, `foldAllOfBounds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.cel.limits import LARGEST_STRING, largest_list, largest_map
from kcp_py.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Field, Type, list_of, map_of, object_of
from kcp_py.schema.rules.property_names import KEYWORDS, escape

__all__ = ["Declarations", "DeclaredType", "bound", "declare"]

Schema = Mapping[str, Any]

_ROOT: Final = "selfType"
"""What messages call the type of the whole; upstream's name for it has a number that changes with each compilation."""
_MIN_STRING: Final = 2
_MIN_CONTAINER: Final = 2
_BYTES_OF_A_CHARACTER: Final = 4
_MAX_NAME: Final = 253
# The generated suffix of a name has one character at least.
_MAX_GENERATE_NAME: Final = _MAX_NAME - 1


class DeclaredType(NamedTuple):
    """A node's type.

    Attributes:
        type: in CEL.
        min_size: bytes that the smallest value takes in JSON.
    """

    type: Type
    min_size: int


_MAX_DURATION: Final = 32
_MAX_DATE: Final = 12
_MAX_TIME: Final = 32
_BOOL: Final = DeclaredType(BOOL, 4)
_NUMBER: Final = DeclaredType(DOUBLE, 1)
_INTEGER: Final = DeclaredType(INT, 1)
# The shortest texts of the formats with quotes around them: `"0"`, and a date and a time with a letter between them.
_MIN_DURATION: Final = 3
_MIN_DATE: Final = 12
_MIN_TIME: Final = 21


def declare(schema: Schema, *, resource: bool = False) -> DeclaredType | None:
    """The type of one node alone; see `Declarations`."""
    return Declarations().of(schema, _ROOT, resource=resource)


class Declarations:
    """The types of the nodes of one schema, each worked out once.

    An object's type is named by its place: two objects are of one type only where they are the same property.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._known: dict[tuple[int, bool], DeclaredType | None] = {}

    def of(self, schema: Schema, name: str = _ROOT, *, resource: bool = False) -> DeclaredType | None:
        """The type of a node; None: CEL cannot see it, because the schema does not say what it is.

        Args:
            schema: the node as its document has it; the document has to outlive the declarations.
            name: of the type where it is that of an object.
            resource: the root of an object or of an embedded one: apiVersion, kind and the name are there without being declared.
        """
        key = (id(schema), resource)
        if key not in self._known:
            self._known[key] = self._declare(schema, name, resource=resource)
        return self._known[key]

    def _declare(self, schema: Schema, name: str, *, resource: bool) -> DeclaredType | None:
        if schema.get("x-kubernetes-int-or-string"):
            length = bound(schema, "maxLength")
            return DeclaredType(_sized(DYN, LARGEST_STRING if length is None else length * _BYTES_OF_A_CHARACTER), 1)
        match "object" if resource else schema.get("type"):
            case "array":
                return self._array(schema, name)
            case "object":
                return self._object(schema, name, resource=resource)
            case "string":
                return _text(schema)
            case "boolean":
                return _BOOL
            case "number":
                return _NUMBER
            case "integer":
                return _INTEGER
            case _:
                return None

    def child(self, schema: object, name: str) -> DeclaredType | None:
        """The type of a node below another one."""
        if not isinstance(schema, Mapping):
            return None
        return self.of(schema, name, resource=bool(schema.get("x-kubernetes-embedded-resource")))

    def _array(self, schema: Schema, name: str) -> DeclaredType | None:
        """A list; its elements take at least themselves and a comma."""
        element = self.child(schema.get("items"), f"{name}.@idx")
        if element is None:
            return None
        size = bound(schema, "maxItems")
        kind = list_of(
            element.type,
            max_size=largest_list(element.min_size) if size is None else size,
            list_type=schema.get("x-kubernetes-list-type") or "atomic",
            list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        )
        return DeclaredType(kind, _MIN_CONTAINER)

    def _object(self, schema: Schema, name: str, *, resource: bool) -> DeclaredType | None:
        """A map where there is a schema for all values, else an object."""
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            value = self.child(additional, f"{name}.@elem")
            if value is None:
                return None
            size = bound(schema, "maxProperties")
            most = largest_map(value.min_size) if size is None else size
            return DeclaredType(map_of(STRING, value.type, max_size=most), _MIN_CONTAINER)
        properties: Mapping[str, Any] = schema.get("properties") or {}
        required = frozenset(schema.get("required") or ())
        fields: dict[str, Field] = {}
        smallest = _MIN_CONTAINER
        implicit = _implicit(properties, name) if resource else {}
        for key, child in (*properties.items(), *((key, None) for key in implicit if key not in properties)):
            escaped = escape(key)
            declared = implicit.get(key) or self.child(child, f"{name}.{escaped or key}")
            if declared is None:
                continue
            if escaped is not None:
                fields[escaped] = Field(declared.type, key, nullable=child is not None and child.get("nullable") is True)
                if key in KEYWORDS:
                    # Since 1.31 keywords are names of fields, too, where the grammar lets them be.
                    fields[key] = fields[escaped]
            if key in required and (child is None or child.get("default") is None):
                smallest += len(key) + declared.min_size + 4
        return DeclaredType(object_of(name, fields), smallest)


def bound(schema: Schema, keyword: str) -> int | None:
    """The number under a keyword of a node or of its `allOf`, the least of all, zero where it is less; None: there is none."""
    found = []
    pending = [schema]
    while pending:
        part = pending.pop()
        if (value := part.get(keyword)) is not None:
            found.append(max(int(value), 0))
        pending.extend(part.get("allOf") or ())
    return min(found, default=None)


def _implicit(properties: Mapping[str, Any], name: str) -> dict[str, DeclaredType]:
    """What every object has, whatever its schema says of it, unless that says it all."""
    metadata = properties.get("metadata") or {}
    declared = metadata.get("properties") or {}
    texts = [properties.get("apiVersion"), properties.get("kind"), declared.get("name"), declared.get("generateName")]
    if metadata.get("type") == "object" and all((part or {}).get("type") == "string" for part in texts):
        return {}
    text = DeclaredType(_sized(STRING, LARGEST_STRING), _MIN_STRING)
    names = {
        key: Field(_sized(STRING, min(most, length if length is not None else most) * _BYTES_OF_A_CHARACTER), key)
        for key, most in (("name", _MAX_NAME), ("generateName", _MAX_GENERATE_NAME))
        for length in (bound(declared.get(key) or {}, "maxLength"),)
    }
    return {"apiVersion": text, "kind": text, "metadata": DeclaredType(object_of(f"{name}.metadata", names), _MIN_CONTAINER)}


def _sized(kind: Type, size: int) -> Type:
    """A scalar type with a bound."""
    return Type(kind.kind, kind.name, max_size=size)


def _text(schema: Schema) -> DeclaredType:
    """A string, or what its format makes of it."""
    length = bound(schema, "maxLength")
    match schema.get("format"):
        case "byte":
            return DeclaredType(_sized(BYTES, length if length is not None else LARGEST_STRING), _MIN_STRING)
        case "duration":
            return DeclaredType(_sized(DURATION, _MAX_DURATION), _MIN_DURATION)
        case "date":
            return DeclaredType(_sized(TIMESTAMP, _MAX_DATE), _MIN_DATE)
        case "date-time":
            return DeclaredType(_sized(TIMESTAMP, _MAX_TIME), _MIN_TIME)
    if length is not None:
        most = length * _BYTES_OF_A_CHARACTER
    elif choices := schema.get("enum"):
        most = max((len(choice.encode()) for choice in choices if isinstance(choice, str)), default=0)
    else:
        most = LARGEST_STRING
    return DeclaredType(_sized(STRING, most), _MIN_STRING)
