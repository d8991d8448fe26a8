"""The largest number of nodes of a schema that look at one value. It bounds the work of validation together with the size of the value.

Every value is looked at by its own node and by those of the junctors (`allOf`, `anyOf`, `oneOf`, `not`) at and above it. A schema of a
megabyte can hold tens of thousands of alternatives, and a body a million values.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.golang import regexp
from kcp_py.schema.structural.nodes import Node
from kcp_py.schema.structural.visitor import junctor_parts, nodes_of, parts_of

_MANY_VALUES: Final = 5000
"""Values of an enumeration; listing more of them in an error takes over four milliseconds."""


def width(root: Node) -> int:
    """An upper bound of the nodes that look at one value; 1 where there are no junctors."""
    sizes: dict[int, int] = {}
    widest = 1
    pending = [(root, 1)]
    while pending:
        node, above = pending.pop()
        here = above + sum(_size(part, sizes) for part in junctor_parts(node))
        widest = max(widest, here)
        pending.extend((child, here) for _, child in node.children())
    return widest


def pattern_weight(root: Node) -> int:
    """The weight of the heaviest pattern or enumeration: what a character of a value may cost in steps.

    The error about a value that is not in an enumeration lists all of its values.
    """
    heaviest = 0
    for node in nodes_of(root):
        if node.pattern:
            heaviest = max(heaviest, regexp.weight(node.pattern))
        if len(node.enum) > _MANY_VALUES:
            heaviest = max(heaviest, len(node.enum))
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


def _size(root: Node, sizes: dict[int, int]) -> int:
    """The nodes of a tree. Equal ones are shared, and each is counted at every place where it is used."""
    if (size := sizes.get(id(root))) is None:
        size = sizes[id(root)] = 1 + sum(_size(part, sizes) for part in parts_of(root))
    return size
