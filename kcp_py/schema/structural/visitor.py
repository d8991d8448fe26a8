"""The two ways to visit a tree of nodes: one after the other, and compiling each into a closure.

Walks over a *value* (pruning, reports, decoding) are with their rules: they visit the parts of the value, not the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from kcp_py.schema.structural.nodes import Node

__all__ = ["References", "junctor_parts", "nodes_of", "parts_of"]

Closure = TypeVar("Closure", bound=Callable[..., Any])


def junctor_parts(node: Node) -> list[Node]:
    """The nodes of `allOf`, `anyOf`, `oneOf` and `not`, which are about the same value as the node."""
    parts = [*node.all_of, *node.any_of, *node.one_of]
    return parts if node.negated is None else [*parts, node.negated]


def parts_of(node: Node) -> list[Node]:
    """The nodes directly below a node: those of its junctors, and those for the parts of its value."""
    return [*junctor_parts(node), *(child for _, child in node.children())]


def nodes_of(root: Node) -> Iterator[Node]:
    """Every node of a tree, equal ones once, without recursion. References are not followed."""
    seen = {id(root)}
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        for part in parts_of(node):
            if id(part) not in seen:
                seen.add(id(part))
                pending.append(part)


class References(Generic[Closure]):
    """Closures for the references in a schema.

    A definition may refer to itself, so that it is compiled when its closure is first called.
    """

    __slots__ = ("_closures", "_definitions")

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        """Begin without closures.

        Args:
            definitions: what references stand for, by name.
        """
        self._definitions = definitions
        self._closures: dict[Any, Closure] = {}

    def closure(self, name: str, compile_node: Callable[[Node], Closure], variant: Any = None) -> Closure:
        """The closure of a definition.

        Args:
            name: of the definition.
            compile_node: makes the closure of its node.
            variant: identifies one of several closures of one definition.
        """
        if (closure := self._closures.get((name, variant))) is not None:
            return closure
        compiled: Closure | None = None

        def call(*arguments: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = compile_node(self._definitions[name])
            return compiled(*arguments)

        made = self._closures[name, variant] = cast("Closure", call)
        return made
