"""`Node`: one node of an OpenAPI v3 schema, read once from its document and shared wherever an equal node appears.

Descriptions, titles and examples are left out: they change nothing about a value. Source: k8s.io/apiextensions-apiserver
`pkg/apiserver/schema/structural.go` and `pkg/apiserver/validation` (`ConvertJSONSchemaProps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

MAX_DEPTH: Final = 128
"""Nesting of a schema that is compiled; real ones stay below 25."""

META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
"""What every object has without its schema saying so."""

LENIENT: Final = "x-lenient"
"""The keyword behind `Node.lenient`, in the schemas of built-in kinds."""

NO_DEFAULT: Final[Any] = object()
"""Stands for the absence of a default: null is not one either, upstream drops it."""


MAX_NAMES: Final = 4096
"""Characters of all property names on the way to a node: errors repeat them for each node."""


class SchemaTooDeepError(ValueError):
    """A schema is nested deeper than `MAX_DEPTH`, or below too long names."""

    def __init__(self) -> None:
        super().__init__(f"schema is nested deeper than {MAX_DEPTH} levels, or below names of more than {MAX_NAMES} characters")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One schema node. Equal nodes of one compilation are the same object."""

    types: tuple[str, ...] = ()
    nullable: bool = False
    format: str = ""
    properties: Mapping[str, Node]
    additional: Node | bool | None = None
    """None: not said. A schema, true or false otherwise."""
    items: Node | None = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    pattern: str = ""
    min_length: int | None = None
    max_length: int | None = None
    minimum: float | None = None
    exclusive_minimum: bool = False
    maximum: float | None = None
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None
    """`not`."""
    default: Any = NO_DEFAULT
    preserve: bool = False
    embedded: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    ref: str = ""
    """The name of a definition; all other members are unset then."""
    lenient: bool = False
    """Whether upstream decodes the value apart, where strict decoding sees nothing: what is unknown is dropped without a word."""
    typed: bool = False
    """Whether upstream decodes into a struct: a list is then never taken for a string that has a format."""


def read_schema(document: Mapping[str, Any], *, typed: bool = False) -> Node:
    """Read a whole schema.

    Args:
        document: the schema.
        typed: see `Node.typed`.

    Raises:
        SchemaTooDeepError: deeper than `MAX_DEPTH`.
    """
    return _Reader(typed=typed).read(document, 1)


class _Reader:
    """Reads nodes and keeps one of each content."""

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._known: dict[Any, Node] = {}

    def read(self, document: Mapping[str, Any], depth: int, names: int = 0) -> Node:
        if depth > MAX_DEPTH or names > MAX_NAMES:
            raise SchemaTooDeepError
        depth += 1
        get = document.get
        if ref := get("$ref"):
            return self._share(("$ref", ref), Node(properties={}, ref=str(ref).rpartition("/")[2]))
        properties: dict[str, Node] = {}
        children: dict[str, Any] = {}
        key: list[Any] = []
        for name, value in document.items():
            if name in _OWN:
                key.append(name)
                key.append(value if type(value) is str else _hashable(value))
            elif name == "properties":
                properties = {
                    field: self.read(part, depth, names + len(field)) for field, part in (value or {}).items() if isinstance(part, Mapping)
                }
                # Apart from the keywords: a property may be called `items`.
                key.append(tuple(properties))
                key.append(tuple(map(id, properties.values())))
            elif name in _NODES and (type(value) is dict or isinstance(value, Mapping)):
                child = children[name] = self.read(value, depth, names)
                key.append(name)
                key.append(id(child))
            elif name in _NODE_LISTS and value:
                parts = children[name] = tuple(
                    [self.read(part, depth, names) for part in value if type(part) is dict or isinstance(part, Mapping)]
                )
                key.append(name)
                key.append(tuple(map(id, parts)))
            elif name == "additionalProperties":
                children[name] = value
                key.append(name)
                key.append(value is True)
        identity = tuple(key)
        if (known := self._known.get(identity)) is not None:
            return known
        additional = children.get("additionalProperties")
        default = get("default")
        return self._share(
            identity,
            Node(
                types=_types(document),
                nullable=get("nullable") is True,
                format=get("format") or "",
                properties=properties,
                additional=additional if isinstance(additional, bool | Node) else None,
                items=children.get("items"),
                required=tuple(get("required") or ()),
                enum=tuple(get("enum") or ()),
                pattern=get("pattern") or "",
                min_length=get("minLength"),
                max_length=get("maxLength"),
                minimum=get("minimum"),
                exclusive_minimum=get("exclusiveMinimum") is True,
                maximum=get("maximum"),
                exclusive_maximum=get("exclusiveMaximum") is True,
                multiple_of=get("multipleOf"),
                min_items=get("minItems"),
                max_items=get("maxItems"),
                min_properties=get("minProperties"),
                max_properties=get("maxProperties"),
                all_of=children.get("allOf", ()),
                any_of=children.get("anyOf", ()),
                one_of=children.get("oneOf", ()),
                negated=children.get("not"),
                default=NO_DEFAULT if default is None else default,
                preserve=get("x-kubernetes-preserve-unknown-fields") is True,
                embedded=get("x-kubernetes-embedded-resource") is True,
                list_type=get("x-kubernetes-list-type") or "",
                list_map_keys=tuple(get("x-kubernetes-list-map-keys") or ()),
                lenient=get(LENIENT) is True,
                typed=self._typed,
            ),
        )

    def _share(self, key: Any, node: Node) -> Node:
        return self._known.setdefault(key, node)


_OWN: Final = frozenset({
    "type", "nullable", "format", "required", "enum", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "minProperties", "maxProperties", "default", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    LENIENT,
})  # fmt: skip
"""The keywords that say something about a value of the node itself."""

_NODES: Final = frozenset({"items", "not", "additionalProperties"})
_NODE_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf"})


def _hashable(value: Any) -> Any:
    # The type is part of the key: True, 1 and 1.0 are equal to Python, not to a schema.
    if isinstance(value, dict | list | tuple):
        return orjson.dumps(value)
    return (type(value), value)


def _types(document: Mapping[str, Any]) -> tuple[str, ...]:
    if document.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    match document.get("type"):
        case str() as name if name:
            return (name,)
        case Sequence() as names:
            return tuple(names)
        case _:
            return ()
