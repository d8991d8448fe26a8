"""The rules of a whole schema, as a tree with a node for each schema node that has rules at or below it.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go` (`NewValidator`).
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import orjson

from kcp_py.schema.rules.declared_types import ITEM, ROOT, VALUE, Declarations, field_name
from kcp_py.schema.structural.nodes import Node

if TYPE_CHECKING:
    from kcp_py.schema.rules.compilation import CompiledRule

__all__ = ["RuleNode", "compile_tree", "is_compiler_imported"]

_COMPILER: Final = "kcp_py.schema.rules.compilation"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class RuleNode:
    """A schema node with rules at or below it.

    Attributes:
        kind: the type of the schema node, `object`, `array`, `string` …: errors about rules print it.
        rules: the rules of the node itself.
        properties: the nodes for the fields of an object.
        values: the node for all values of a map.
        items: the node for all elements of a list.
        list_type: `x-kubernetes-list-type`. The elements of a `map` list are correlated with those of the old list.
        list_keys: the keys by which they are correlated.
        min_size: bytes that the smallest value takes in JSON.
        count: the number of rules at and below the node.
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


def is_compiler_imported() -> bool:
    """Whether the compiler of rules is in memory. Its first use imports it: about 0.1 s and 6 MB, so this is to be done in a thread."""
    # The function is the last part of the module.
    return hasattr(sys.modules.get(_COMPILER), "compile_rules")


def compile_tree(root: Node, document: Mapping[str, Any], *, resource: bool = True) -> RuleNode | None:
    """Compile every rule of a schema. Schemas with equal content share the compiled tree while it is in use.

    Args:
        root: the schema, structural.
        document: the document that `root` was read from: the content that is compared.
        resource: whether the root is that of an object.

    Returns:
        The tree; None where the schema has no rules.
    """
    if not root.has_rules:
        return None
    key = hashlib.sha256(orjson.dumps((document, resource))).digest()
    if (tree := _TREES.get(key)) is not None:
        return tree
    tree = _compile(root, Declarations(), ROOT, resource=resource)
    if tree is not None:
        # CRDs are checked in several threads: at worst one tree is compiled twice.
        _TREES[key] = tree
        _LATEST.append(tree)
    return tree


_TREES: Final[WeakValueDictionary[bytes, RuleNode]] = WeakValueDictionary()
_LATEST: Final[deque[RuleNode]] = deque(maxlen=8)
"""Keeps the trees that CRDs were checked with until the CRDs are served."""


def _compile(node: Node, declarations: Declarations, name: str, *, resource: bool) -> RuleNode | None:
    """Compile a node and the nodes below it. A node whose type CEL does not know has no rules, nor has any node below it."""
    declared = declarations.of(node, name, resource=resource)
    if declared is None:
        return None
    compiled: tuple[CompiledRule, ...] = ()
    if node.rules:
        from kcp_py.schema.rules.compilation import compile_rules  # noqa: PLC0415  # CEL is loaded where there are rules

        compiled = compile_rules(declared.type, node)

    def below(child: object, step: str) -> RuleNode | None:
        """Compile a child, if it is a schema with rules."""
        if not isinstance(child, Node) or not child.has_rules:
            return None
        return _compile(child, declarations, f"{name}.{step}", resource=child.embedded)

    fields = {key: below(child, field_name(key)) for key, child in node.properties.items()}
    properties = {key: tree for key, tree in fields.items() if tree is not None}
    values, items = below(node.additional, VALUE), below(node.items, ITEM)
    if not compiled and not properties and values is None and items is None:
        return None
    return RuleNode(
        kind=node.kind or ("object" if resource else ""),
        rules=compiled,
        properties=properties,
        values=values,
        items=items,
        list_type=node.list_type or "atomic",
        list_keys=node.list_map_keys,
        min_size=declared.min_size,
        count=len(compiled) + sum(tree.count for tree in (*properties.values(), values, items) if tree is not None),
    )
