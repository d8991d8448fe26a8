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

NO_DEFAULT: Final[Any] = object()
"""Stands for the absence of a default: null is not one either, upstream drops it."""


class SchemaTooDeepError(ValueError):
    """A schema is nested deeper than `MAX_DEPTH`."""

    def __init__(self) -> None:
        super().__init__(f"schema is nested deeper than {MAX_DEPTH} levels")


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


def read_schema(document: Mapping[str, Any]) -> Node:
    """Read a whole schema.

    Raises:
        SchemaTooDeepError: deeper than `MAX_DEPTH`.
    """
    return _Reader().read(document, 1)


class _Reader:
    """Reads nodes and keeps one of each content."""

    def __init__(self) -> None:
        self._known: dict[Any, Node] = {}

    def read(self, document: Mapping[str, Any], depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise SchemaTooDeepError
        depth += 1
        get = document.get
        if ref := get("$ref"):
            return self._share(("$ref", ref), Node(properties={}, ref=str(ref).rpartition("/")[2]))
        properties = {name: self.read(child, depth) for name, child in (get("properties") or {}).items() if isinstance(child, Mapping)}
        additional = get("additionalProperties")
        if isinstance(additional, Mapping):
            additional = self.read(additional, depth)
        items = get("items")
        items = self.read(items, depth) if isinstance(items, Mapping) else None
        negated = get("not")
        negated = self.read(negated, depth) if isinstance(negated, Mapping) else None
        all_of, any_of, one_of = (self._read_all(get(name), depth) for name in ("allOf", "anyOf", "oneOf"))
        default = get("default")
        key = (
            tuple([(name, id(child)) for name, child in properties.items()]),
            additional if isinstance(additional, bool | None) else id(additional),
            id(items),
            id(negated),
            tuple(map(id, all_of)),
            tuple(map(id, any_of)),
            tuple(map(id, one_of)),
            tuple([_hashable(get(name)) for name in _OWN if name in document]),
            tuple([name for name in _OWN if name in document]),
        )
        if (known := self._known.get(key)) is not None:
            return known
        return self._share(
            key,
            Node(
                types=_types(document),
                nullable=get("nullable") is True,
                format=get("format") or "",
                properties=properties,
                additional=additional if isinstance(additional, bool | Node) else None,
                items=items,
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
                all_of=all_of,
                any_of=any_of,
                one_of=one_of,
                negated=negated,
                default=NO_DEFAULT if default is None else default,
                preserve=get("x-kubernetes-preserve-unknown-fields") is True,
                embedded=get("x-kubernetes-embedded-resource") is True,
                list_type=get("x-kubernetes-list-type") or "",
                list_map_keys=tuple(get("x-kubernetes-list-map-keys") or ()),
            ),
        )

    def _read_all(self, documents: Any, depth: int) -> tuple[Node, ...]:
        return tuple([self.read(document, depth) for document in documents or () if isinstance(document, Mapping)])

    def _share(self, key: Any, node: Node) -> Node:
        return self._known.setdefault(key, node)


_OWN: Final = (
    "type", "nullable", "format", "required", "enum", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "minProperties", "maxProperties", "default", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
)  # fmt: skip


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
