"""What macros build their trees with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.errors import Issue
from kcp_py.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Expression,
    Identifier,
    ListLiteral,
    MapLiteral,
    Select,
    copied,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Expander", "MacroError"]


class MacroError(Exception):
    """A macro cannot be expanded: `node` is at fault."""

    def __init__(self, node: Expression, message: str) -> None:
        """Keep what and where."""
        self.issue = Issue(message, node.position)
        super().__init__(message)


class Expander:
    """Makes the nodes that a macro is replaced by; all of them point at the macro's call.

    Attributes:
        accumulator: the name of accumulators, which no text can spell.
    """

    accumulator: Final = "@result"

    __slots__ = ("_new_copy", "_new_id", "position")

    def __init__(self, position: int, new_id: Callable[[int], int], new_copy: Callable[[int], int]) -> None:
        """Expand one call.

        Args:
            position: of the call.
            new_id: gives the id of a node at a position.
            new_copy: the same, of a node that is made once more.
        """
        self.position = position
        self._new_id = new_id
        self._new_copy = new_copy

    def constant(self, value: object) -> Constant:
        """A literal."""
        return Constant(self._new_id(self.position), self.position, value)

    def identifier(self, name: str) -> Identifier:
        """A variable."""
        return Identifier(self._new_id(self.position), self.position, name)

    def result(self) -> Identifier:
        """The accumulator."""
        return self.identifier(self.accumulator)

    def call(self, function: str, *args: Expression) -> Call:
        """An operator or a global function."""
        return Call(self._new_id(self.position), self.position, function, None, args)

    def member_call(self, target: Expression, function: str, *args: Expression) -> Call:
        """A function on a receiver."""
        return Call(self._new_id(self.position), self.position, function, target, args)

    def list(self, *elements: Expression) -> ListLiteral:
        """A list literal."""
        return ListLiteral(self._new_id(self.position), self.position, elements)

    def map(self) -> MapLiteral:
        """The empty map."""
        return MapLiteral(self._new_id(self.position), self.position, ())

    def presence(self, operand: Expression, field: str) -> Select:
        """What `has(operand.field)` means."""
        return Select(self._new_id(self.position), self.position, operand, field, test_only=True)

    def copy(self, node: Expression) -> Expression:
        """A copy of an argument that a macro evaluates in two places. Each node has its own results, so the nodes must differ."""
        return copied(node, lambda: self._new_copy(self.position))

    def fold(
        self,
        iter_range: Expression,
        iter_var: str,
        iter_var2: str = "",
        *,
        init: Expression,
        condition: Expression,
        step: Expression,
        result: Expression,
        accumulator: str = accumulator,
    ) -> Comprehension:
        """A comprehension."""
        number = self._new_id(self.position)
        return Comprehension(number, self.position, iter_range, iter_var, iter_var2, accumulator, init, condition, step, result)
