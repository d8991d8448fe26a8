"""`Node`: one node of an OpenAPI v3 schema, read once from its document and shared wherever an equal node appears.

Descriptions, titles and examples are left out: they change nothing about a value. Source: k8s.io/apiextensions-apiserver
`pkg/apiserver/schema/structural.go` and `pkg/apiserver/validation` (`ConvertJSONSchemaProps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

MAX_DEPTH: Final = 128
"""Nesting of a schema that is compiled; real ones stay below 25."""

META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
"""The fields that every object has although its schema does not declare them."""

LENIENT: Final = "x-lenient"
"""The keyword behind `Node.lenient`, in the schemas of built-in kinds."""

NO_DEFAULT: Final[Any] = object()
"""Stands for the absence of a default. A default of null is dropped, as upstream drops it."""

MAX_NAMES: Final = 4096
"""Characters of all property names between the root and a node. Each error about the node repeats them."""


class SchemaTooDeepError(ValueError):
    """A schema is nested deeper than `MAX_DEPTH`, or below too long names."""

    def __init__(self) -> None:
        super().__init__(f"schema is nested deeper than {MAX_DEPTH} levels, or below names of more than {MAX_NAMES} characters")


class Rule(NamedTuple):
    """One rule of `x-kubernetes-validations` as it is written."""

    rule: str
    message: str
    message_expression: str
    reason: str | None
    field_path: str
    optional_old_self: bool | None


def read_rule(rule: Mapping[str, Any]) -> Rule:
    """Read one rule; missing texts are empty."""
    get = rule.get
    texts = (get("rule") or "", get("message") or "", get("messageExpression") or "")
    return Rule(*texts, get("reason"), get("fieldPath") or "", get("optionalOldSelf"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One schema node. Equal nodes of one compilation are the same object."""

    types: tuple[str, ...] = ()
    nullable: bool = False
    format: str = ""
    properties: Mapping[str, Node]
    additional: Node | bool | None = None
    """The schema of fields that `properties` does not name, or whether such fields are allowed; None where the document does not say."""
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
    map_type: str = ""
    int_or_string: bool = False
    """Whether `x-kubernetes-int-or-string` is set; `types` names both types then."""
    rules: tuple[Rule, ...] = ()
    has_rules: bool = False
    """Whether the node or a node below it has rules. Parts of logical junctors have none."""
    ref: str = ""
    """The name of a definition. Of the other members only `map_type` is set then."""
    lenient: bool = False
    """Whether unknown fields are dropped without a strict decoding error: upstream decodes such a value in a second step."""
    typed: bool = False
    """Whether upstream decodes the value into a struct. A list is then never valid as a string that has a format."""

    @property
    def kind(self) -> str:
        """The type; empty where there is none or `int_or_string`. Of several types it is the first that is not null."""
        types = self.types
        if len(types) == 1:
            return types[0]
        return "" if self.int_or_string else next((name for name in types if name != "null"), "")

    @property
    def target(self) -> str:
        """The definition that stands for the node, also where a description or a default accompanies the reference; empty: none."""
        # Published documents put the reference into `allOf` then.
        return self.ref or (self.all_of[0].ref if len(self.all_of) == 1 else "")

    def field(self, name: str) -> Node | None:
        """The schema of a field or a map entry, if there is one."""
        child = self.properties.get(name, self.additional)
        return child if isinstance(child, Node) else None

    def children(self) -> Iterator[tuple[str, Node]]:
        """The nodes for the parts of a value, each with its place in the document: `properties[spec]`, `items`, `additionalProperties`."""
        for name, child in self.properties.items():
            yield f"properties[{name}]", child
        if self.items is not None:
            yield "items", self.items
        if isinstance(self.additional, Node):
            yield "additionalProperties", self.additional


def read_schema(document: Mapping[str, Any], *, typed: bool = False, index: dict[int, Node] | None = None) -> Node:
    """Read a whole schema.

    Args:
        document: the schema.
        typed: see `Node.typed`.
        index: is filled with the node of each part of the document, by the `id` of the part.

    Raises:
        SchemaTooDeepError: deeper than `MAX_DEPTH`.
    """
    return _Reader(typed=typed, index=index).read(document, 1)


class NodesByName(Mapping[str, Node]):
    """Named schemas, each read when it is first asked for: what the references in a document stand for."""

    __slots__ = ("_documents", "_read", "_typed")

    def __init__(self, documents: Mapping[str, Mapping[str, Any]], *, typed: bool = False) -> None:
        """Keep the documents; `typed` as in `read_schema`."""
        self._documents = documents
        self._typed = typed
        self._read: dict[str, Node] = {}

    def __getitem__(self, name: str) -> Node:
        """Read a schema.

        Raises:
            KeyError: there is no schema with this name.
            SchemaTooDeepError: deeper than `MAX_DEPTH`.
        """
        if (node := self._read.get(name)) is None:
            node = self._read[name] = read_schema(self._documents[name], typed=self._typed)
        return node

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(self._documents)

    def __len__(self) -> int:
        """The number of names."""
        return len(self._documents)


class _Reader:
    """Reads nodes and keeps one of each content."""

    def __init__(self, *, typed: bool, index: dict[int, Node] | None = None) -> None:
        self._typed = typed
        self._index = index
        self._nodes: dict[Any, Node] = {}

    def read(self, document: Mapping[str, Any], depth: int, names: int = 0) -> Node:
        node = self._read(document, depth, names)
        if self._index is not None:
            self._index[id(document)] = node
        return node

    def _read(self, document: Mapping[str, Any], depth: int, names: int) -> Node:
        if depth > MAX_DEPTH or names > MAX_NAMES:
            raise SchemaTooDeepError
        depth += 1
        get = document.get
        if ref := get("$ref"):
            map_type = get("x-kubernetes-map-type") or ""
            return self._share(("$ref", ref, map_type), Node(properties={}, ref=str(ref).rpartition("/")[2], map_type=map_type))
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
                # Two entries of their own, because a property may be called `items`.
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
        if (equal := self._nodes.get(identity)) is not None:
            return equal
        items, additional = children.get("items"), children.get("additionalProperties")
        default = get("default")
        rules = tuple(map(read_rule, get(_RULES) or ()))
        return self._share(
            identity,
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
                all_of=children.get("allOf", ()),
                any_of=children.get("anyOf", ()),
                one_of=children.get("oneOf", ()),
                negated=children.get("not"),
                default=NO_DEFAULT if default is None else default,
                preserve=get("x-kubernetes-preserve-unknown-fields") is True,
                embedded=get("x-kubernetes-embedded-resource") is True,
                list_type=get("x-kubernetes-list-type") or "",
                list_map_keys=tuple(get("x-kubernetes-list-map-keys") or ()),
                map_type=get("x-kubernetes-map-type") or "",
                int_or_string=get("x-kubernetes-int-or-string") is True,
                rules=rules,
                has_rules=bool(rules)
                or any(child.has_rules for child in (*properties.values(), items, additional) if isinstance(child, Node)),
                lenient=get(LENIENT) is True,
                typed=self._typed,
            ),
        )

    def _share(self, key: Any, node: Node) -> Node:
        return self._nodes.setdefault(key, node)


_RULES: Final = "x-kubernetes-validations"
_OWN: Final = frozenset({
    "type", "nullable", "format", "required", "enum", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "minProperties", "maxProperties", "default", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", _RULES, LENIENT,
})  # fmt: skip
"""The keywords about a value of the node itself, as opposed to its parts."""

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
