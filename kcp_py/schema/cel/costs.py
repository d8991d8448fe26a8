"""What evaluation costs, in cel-go's units (cel-go `interpreter/runtimecost.go`, apiserver `pkg/cel/library/cost.go`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.schema.cel.syntax import Comprehension, Identifier, ListLiteral, MapLiteral, Select, StructLiteral

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.schema.cel.declarations import Overload
    from kcp_py.schema.cel.syntax import Expression
    from kcp_py.schema.cel.types import Type

__all__ = ["call_cost", "node_cost"]

_NODES: Final[dict[type[Expression], int]] = {
    Identifier: 1,
    Select: 1,
    ListLiteral: 10,
    MapLiteral: 30,
    StructLiteral: 40,
    Comprehension: 1,
}


def node_cost(node: Expression) -> int:
    """The cost of a node itself, without its children and without what a call adds."""
    return _NODES.get(type(node), 0)


def call_cost(overloads: Sequence[Overload], arguments: Sequence[Expression], kinds: Sequence[Type]) -> int | Callable[..., int]:
    """The cost of a call beyond its arguments': a number where that is constant, else a function of the arguments' values."""
    del overloads, arguments, kinds
    return 1
