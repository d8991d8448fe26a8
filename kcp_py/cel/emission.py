"""From nodes of a checked tree to statements and expressions of Python: what all kinds of nodes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import costs, runtime
from kcp_py.cel.syntax import Constant, Identifier, Select
from kcp_py.cel.values import TypeValue
from kcp_py.cel.writer import CodeWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcp_py.cel.checked import Checked
    from kcp_py.cel.syntax import Expression

__all__ = ["KEYS", "Emission"]

KEYS: Final = frozenset({"string", "int", "uint"})
"""Kinds of keys of maps that are the keys of the dict."""

# Python reads at most 20 loops or tries inside one another, and 100 levels of indentation.
_DEEPEST_BLOCK: Final = 12
_DEEPEST_INDENT: Final = 40


class Emission(CodeWriter):
    """One run over one checked expression.

    Attributes:
        checked: the expression.
        types: of its nodes.
        scope: name of a variable -> local.
        cost: units to be charged in advance for the code that was emitted since the caller last set it to 0.
    """

    def __init__(self, checked: Checked, emitters: Mapping[type[Expression], Callable[[Emission, Any], str]]) -> None:
        """Begin with an empty body and nothing in scope.

        Args:
            checked: the expression.
            emitters: what writes a node of a class, and returns the expression of its value.
        """
        super().__init__({"ERRORS": runtime.ERRORS, "charged": runtime.charged})
        self.checked = checked
        self.types = checked.types
        self.scope: dict[str, str] = {}
        self.cost = 0
        self._emitters = emitters
        self._type_values: dict[str, TypeValue] = {}

    def emit(self, node: Expression) -> str:
        """Write what a node needs; returns the expression of its value."""
        if (self.blocks >= _DEEPEST_BLOCK or self.indent >= _DEEPEST_INDENT) and not isinstance(node, Constant | Identifier | Select):
            parameters = ", ".join(["B", *dict.fromkeys(self.scope.values())])
            return self.outlined(parameters, lambda: self.emit(node))
        self.cost += costs.node_cost(node)
        return self.spilled(self._emitters[type(node)](self, node))

    def name(self, name: str) -> str:
        """A local, or the value of a type's name."""
        local = self.scope.get(name)
        if local is not None:
            return local
        return self.constant(self._type_values.setdefault(name, TypeValue(self.checked.environment.types[name])))

    def detached(self, node: Expression) -> tuple[list[str], str]:
        """The statements that a node needs, not yet written, and its expression."""
        lines, self.lines = self.lines, []
        # The caller puts them into an `if` and a `try`.
        self.indent += 2
        self.blocks += 1
        text = self.emit(node)
        self.indent -= 2
        self.blocks -= 1
        written, self.lines = self.lines, lines
        return written, text

    def detached_truth(self, node: Expression) -> tuple[list[str], str]:
        """The statements and the expression of a node that has to be a bool, not yet written."""
        lines, text = self.detached(node)
        return lines, text if self.types[node.id].kind == "bool" else f"{self.constant(runtime.truth)}({text})"

    def emit_truth(self, node: Expression) -> str:
        """The expression of something that has to be a bool."""
        text = self.emit(node)
        return text if self.types[node.id].kind == "bool" else f"{self.constant(runtime.truth)}({text})"
