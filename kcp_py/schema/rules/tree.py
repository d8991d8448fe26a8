"""The rules of a whole schema, as a tree that has nodes only where there are rules at or below.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go` (`NewValidator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcp_py.schema.rules.compilation import CompiledRule, compile_rules
from kcp_py.schema.rules.declared_types import declare

__all__ = ["RuleNode", "compile_tree"]

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleNode:
    """Where rules are.

    Attributes:
        kind: the schema's name of the node's type, `object`, `array`, `string` …: errors about rules print it.
        rules: of the node itself.
        properties: of an object.
        values: of a map: the schema of every value.
        items: of a list.
        correlatable: whether parts of a map or object have counterparts in the old one: not those of an atomic map.
        list_type: `map` lists have correlated elements.
        list_keys: by which they are.
    """

    kind: str
    rules: tuple[CompiledRule, ...]
    properties: Mapping[str, RuleNode]
    values: RuleNode | None
    items: RuleNode | None
    correlatable: bool
    list_type: str
    list_keys: tuple[str, ...]


def compile_tree(schema: Schema, *, resource: bool = True) -> RuleNode | None:
    """Compile every rule of a schema.

    Args:
        schema: the document, structural.
        resource: whether the root is that of an object.

    Returns:
        The tree; None: there is no rule at all.
    """
    if not _has_rules(schema):
        return None
    return _compile(schema, resource=resource)


def _has_rules(schema: Schema) -> bool:
    """Whether there is a rule at or below a node; most schemas have none, and cost this walk alone."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if node.get("x-kubernetes-validations"):
            return True
        pending.extend((node.get("properties") or {}).values())
        pending.extend(child for name in ("items", "additionalProperties") if isinstance(child := node.get(name), Mapping))
    return False


def _compile(schema: Schema, *, resource: bool) -> RuleNode | None:
    """A node and what is below."""
    rules = schema.get("x-kubernetes-validations") or ()
    compiled: tuple[CompiledRule, ...] = ()
    if rules:
        declared = declare(schema, resource=resource)
        compiled = compile_rules(rules, declared.type) if declared is not None else ()
    properties = {name: node for name, child in (schema.get("properties") or {}).items() if (node := _child(child)) is not None}
    values, items = _child(schema.get("additionalProperties")), _child(schema.get("items"))
    if not compiled and not properties and values is None and items is None:
        return None
    return RuleNode(
        kind=schema.get("type") or ("object" if resource else ""),
        rules=compiled,
        properties=properties,
        values=values,
        items=items,
        correlatable=schema.get("x-kubernetes-map-type") != "atomic",
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
    )


def _child(schema: object) -> RuleNode | None:
    """A node below, where there is one."""
    if not isinstance(schema, Mapping):
        return None
    return _compile(schema, resource=bool(schema.get("x-kubernetes-embedded-resource")))
