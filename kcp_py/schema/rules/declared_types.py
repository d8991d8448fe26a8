"""What a schema is to CEL: a type for each node, with bounds on its size where the schema or the size of a request gives one.

Source: apiserver `pkg/cel/common/schemas.go` (`SchemaDeclType`), `pkg/cel/limits.go` and `pkg/cel/types.go` (`MaybeAssignTypeName`);
apiextensions `pkg/apiserver/schema/cel/model/schemas.go` (`WithTypeAndObjectMeta`, `foldAllOfBounds`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kcp_py.cel.limits import LARGEST_STRING, largest_list, largest_map
from kcp_py.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Field, Type, list_of, map_of, object_of
from kcp_py.schema.rules.property_names import KEYWORDS, escape
from kcp_py.schema.structural.nodes import NO_DEFAULT, Node

__all__ = ["ITEM", "ROOT", "VALUE", "Declarations", "DeclaredType", "declare", "field_name"]

ROOT: Final = "selfType"
"""The name of the root's type in messages. Upstream's name has a number that changes with each compilation."""
ITEM: Final = "@idx"
"""The last part of the name of the type of a list's elements."""
VALUE: Final = "@elem"
"""The last part of the name of the type of a map's values."""
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


def declare(node: Node, *, resource: bool = False) -> DeclaredType | None:
    """The type of one node alone; see `Declarations`."""
    return Declarations().of(node, ROOT, resource=resource)


def field_name(key: str) -> str:
    """The last part of the name of the type of a field: the field's name in expressions, if it has one."""
    return escape(key) or key


class Declarations:
    """The types of the nodes of one schema, each worked out once.

    The type of an object is named by its place. Equal nodes at two places are one `Node`, and have two types.
    """

    __slots__ = ("_types",)

    def __init__(self) -> None:
        """Begin without types."""
        self._types: dict[tuple[int, str, bool], DeclaredType | None] = {}

    def __len__(self) -> int:
        """How many types were worked out."""
        return len(self._types)

    def of(self, node: Node, name: str = ROOT, *, resource: bool = False) -> DeclaredType | None:
        """The type of a node; None where the schema does not give one, so that CEL does not see the value.

        Args:
            node: has to outlive the declarations.
            name: of the type, if it is that of an object.
            resource: the root of an object or of an embedded one, where apiVersion, kind and the name exist without a declaration.
        """
        key = (id(node), name, resource)
        if key not in self._types:
            self._types[key] = self._declare(node, name, resource=resource)
        return self._types[key]

    def _declare(self, node: Node, name: str, *, resource: bool) -> DeclaredType | None:
        if node.int_or_string:
            length = _least(node, "max_length")
            return DeclaredType(_sized(DYN, LARGEST_STRING if length is None else length * _BYTES_OF_A_CHARACTER), 1)
        match "object" if resource else node.kind:
            case "array":
                return self._array(node, name)
            case "object":
                return self._object(node, name, resource=resource)
            case "string":
                return _text(node)
            case "boolean":
                return _BOOL
            case "number":
                return _NUMBER
            case "integer":
                return _INTEGER
            case _:
                return None

    def _array(self, node: Node, name: str) -> DeclaredType | None:
        """A list. Each element takes at least its own bytes and a comma."""
        if node.items is None or (element := self.of(node.items, f"{name}.{ITEM}", resource=node.items.embedded)) is None:
            return None
        size = _least(node, "max_items")
        kind = list_of(
            element.type,
            max_size=largest_list(element.min_size) if size is None else size,
            list_type=node.list_type or "atomic",
            list_keys=node.list_map_keys,
        )
        return DeclaredType(kind, _MIN_CONTAINER)

    def _object(self, node: Node, name: str, *, resource: bool) -> DeclaredType | None:
        """A map where there is a schema for all values, else an object."""
        if isinstance(values := node.additional, Node):
            value = self.of(values, f"{name}.{VALUE}", resource=values.embedded)
            if value is None:
                return None
            size = _least(node, "max_properties")
            most = largest_map(value.min_size) if size is None else size
            return DeclaredType(map_of(STRING, value.type, max_size=most), _MIN_CONTAINER)
        required = frozenset(node.required)
        fields: dict[str, Field] = {}
        smallest = _MIN_CONTAINER
        implicit = _implicit(node, name) if resource else {}
        for key in (*node.properties, *(key for key in implicit if key not in node.properties)):
            child = node.properties.get(key)
            declared = implicit.get(key)
            if declared is None and child is not None:
                declared = self.of(child, f"{name}.{field_name(key)}", resource=child.embedded)
            if declared is None:
                continue
            if (escaped := escape(key)) is not None:
                fields[escaped] = Field(declared.type, key, nullable=child is not None and child.nullable)
                if key in KEYWORDS:
                    # Since 1.31 a keyword is also a field's name where the grammar allows it.
                    fields[key] = fields[escaped]
            if key in required and (child is None or child.default is NO_DEFAULT):
                smallest += len(key) + declared.min_size + 4
        return DeclaredType(object_of(name, fields), smallest)


def _least(node: Node, limit: str) -> int | None:
    """The smallest value of a limit of a node and of its `allOf`, at least zero; None where there is none."""
    found = []
    pending = [node]
    while pending:
        part = pending.pop()
        if (value := getattr(part, limit)) is not None:
            found.append(max(int(value), 0))
        pending.extend(part.all_of)
    return min(found, default=None)


def _implicit(node: Node, name: str) -> dict[str, DeclaredType]:
    """The fields that every object has, unless the schema declares all of them."""
    metadata = node.properties.get("metadata")
    declared = {} if metadata is None else metadata.properties
    texts = [node.properties.get("apiVersion"), node.properties.get("kind"), declared.get("name"), declared.get("generateName")]
    if metadata is not None and metadata.kind == "object" and all(part is not None and part.kind == "string" for part in texts):
        return {}
    text = DeclaredType(_sized(STRING, LARGEST_STRING), _MIN_STRING)
    names = {
        key: Field(_sized(STRING, min(most, length if length is not None else most) * _BYTES_OF_A_CHARACTER), key)
        for key, most in (("name", _MAX_NAME), ("generateName", _MAX_GENERATE_NAME))
        for length in (_least(declared[key], "max_length") if key in declared else None,)
    }
    return {"apiVersion": text, "kind": text, "metadata": DeclaredType(object_of(f"{name}.metadata", names), _MIN_CONTAINER)}


def _sized(kind: Type, size: int) -> Type:
    """A scalar type with a bound."""
    return Type(kind.kind, kind.name, max_size=size)


def _text(node: Node) -> DeclaredType:
    """A string, or the type that its format stands for."""
    length = _least(node, "max_length")
    match node.format:
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
    elif node.enum:
        most = max((len(choice.encode()) for choice in node.enum if isinstance(choice, str)), default=0)
    else:
        most = LARGEST_STRING
    return DeclaredType(_sized(STRING, most), _MIN_STRING)
