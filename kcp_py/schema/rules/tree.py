"""The rules of a whole schema, as a tree that has nodes only where there are rules at or below.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go` (`NewValidator`).
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import orjson

from kcp_py.schema.rules.declared_types import Declarations

if TYPE_CHECKING:
    from kcp_py.schema.rules.compilation import CompiledRule

__all__ = ["RuleNode", "compile_tree", "has_rules"]

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class RuleNode:
    """Where rules are.

    Attributes:
        kind: the schema's name of the node's type, `object`, `array`, `string` …: errors about rules print it.
        rules: of the node itself.
        properties: of an object.
        values: of a map: the schema of every value.
        items: of a list.
        list_type: `map` lists have correlated elements.
        list_keys: by which they are.
        min_size: bytes that the smallest value takes in JSON.
        count: of the rules at and below.
    """

    kind: str
    rules: tuple[CompiledRule, ...]
    properties: Mapping[str, RuleNode]
    values: RuleNode | None
    items: RuleNode | None
    list_type: str
    list_keys: tuple[str, ...]
    min_size: int
    count: int


def compile_tree(schema: Schema, *, resource: bool = True) -> RuleNode | None:
    """Compile every rule of a schema. Schemas with equal content share what is compiled for as long as somebody uses it.

    Args:
        schema: the document, structural.
        resource: whether the root is that of an object.

    Returns:
        The tree; None: there is no rule at all.
    """
    if not has_rules(schema):
        return None
    key = hashlib.sha256(orjson.dumps((schema, resource))).digest()
    if (tree := _TREES.get(key)) is not None:
        return tree
    tree = _compile(schema, Declarations(), "selfType", resource=resource)
    if tree is not None:
        # Definitions are checked in several threads: at worst one is compiled twice.
        _TREES[key] = tree
        _LATEST.append(tree)
    return tree


_TREES: Final[WeakValueDictionary[bytes, RuleNode]] = WeakValueDictionary()
_LATEST: Final[deque[RuleNode]] = deque(maxlen=8)
"""Holds what a definition was checked with until the definition is served."""


def has_rules(schema: Schema) -> bool:
    """Whether there is a rule at or below a node; most schemas have none, and cost this walk alone."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if node.get("x-kubernetes-validations"):
            return True
        pending.extend((node.get("properties") or {}).values())
        pending.extend(child for name in ("items", "additionalProperties") if isinstance(child := node.get(name), Mapping))
    return False


def _compile(schema: Schema, declarations: Declarations, name: str, *, resource: bool) -> RuleNode | None:
    """A node and what is below. What CEL cannot see has no rules, and nothing below it has."""
    declared = declarations.of(schema, name, resource=resource)
    if declared is None:
        return None
    rules = schema.get("x-kubernetes-validations") or ()
    compiled: tuple[CompiledRule, ...] = ()
    if rules:
        from kcp_py.schema.rules.compilation import compile_rules  # noqa: PLC0415  # CEL is loaded where there are rules

        compiled = compile_rules(rules, declared.type, schema)
    properties = {
        key: node
        for key, child in (schema.get("properties") or {}).items()
        if (node := _child(child, declarations, f"{name}.{key}")) is not None
    }
    values = _child(schema.get("additionalProperties"), declarations, f"{name}.@elem")
    items = _child(schema.get("items"), declarations, f"{name}.@idx")
    if not compiled and not properties and values is None and items is None:
        return None
    below = (*properties.values(), *(node for node in (values, items) if node is not None))
    return RuleNode(
        kind=schema.get("type") or ("object" if resource else ""),
        rules=compiled,
        properties=properties,
        values=values,
        items=items,
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        min_size=declared.min_size,
        count=len(compiled) + sum(node.count for node in below),
    )


def _child(schema: object, declarations: Declarations, name: str) -> RuleNode | None:
    """A node below, where there is one."""
    if not isinstance(schema, Mapping):
        return None
    return _compile(schema, declarations, name, resource=bool(schema.get("x-kubernetes-embedded-resource")))
