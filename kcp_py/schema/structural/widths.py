"""How many nodes of a schema look at one value, at the most: what bounds the work of validation beside the size of the value.

Every value is looked at by its own node and by those of the junctors (`allOf`, `anyOf`, `oneOf`, `not`) at and above it. A schema of a
megabyte can hold tens of thousands of alternatives, and a body a million values.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.golang import regexp
from kcp_py.schema.structural.nodes import Node

_MANY_VALUES: Final = 5000
"""Values of an enumeration that take four milliseconds to be named."""


def width(root: Node) -> int:
    """An upper bound of the nodes that look at one value; 1 where there are no junctors."""
    widest = 1
    pending = [(root, 1)]
    while pending:
        node, above = pending.pop()
        here = above + sum(_nodes(part) for part in _junctors(node))
        widest = max(widest, here)
        pending.extend((child, here) for child in _children(node))
    return widest


def pattern_weight(root: Node) -> int:
    """The weight of the heaviest pattern or enumeration: what a character of a value may cost in steps.

    The refusal of a value that is not in an enumeration names all values that are.
    """
    heaviest = 0
    pending = [root]
    while pending:
        node = pending.pop()
        if node.pattern:
            heaviest = max(heaviest, regexp.weight(node.pattern))
        if len(node.enum) > _MANY_VALUES:
            heaviest = max(heaviest, len(node.enum))
        pending.extend(_junctors(node))
        pending.extend(_children(node))
    return heaviest


def exceeds(value: Any, limit: int) -> bool:
    """Whether there are more than so many values in one, containers included."""
    count = 1
    pending = [value]
    while pending:
        part = pending.pop()
        count += len(part)
        if count > limit:
            return True
        pending.extend(child for child in (part.values() if type(part) is dict else part) if type(child) is dict or type(child) is list)
    return False


def _junctors(node: Node) -> list[Node]:
    parts = [*node.all_of, *node.any_of, *node.one_of]
    return parts if node.negated is None else [*parts, node.negated]


def _children(node: Node) -> list[Node]:
    children = list(node.properties.values())
    if isinstance(node.additional, Node):
        children.append(node.additional)
    return children if node.items is None else [*children, node.items]


def _nodes(root: Node) -> int:
    """The nodes of a tree. Equal ones are shared, but each is looked at for itself."""
    count = 0
    pending = [root]
    while pending:
        node = pending.pop()
        count += 1
        pending.extend(_junctors(node))
        pending.extend(_children(node))
    return count
