"""Constants of a program, which are computed when it is made. An error in one of them is a compile error.

Sources: cel-go `interpreter/decorators.go` (`decOptimize`, `decRegexOptimizer`), with the functions of apiserver
`pkg/cel/library/regex.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.dispatch import dispatcher
from kcp_py.cel.errors import EvaluationError, InstantiationError
from kcp_py.cel.syntax import Call, Constant, children
from kcp_py.golang.regexp import PatternError, check_pattern

if TYPE_CHECKING:
    from kcp_py.cel.checked import Checked
    from kcp_py.cel.syntax import Expression

__all__ = ["CONVERSIONS", "check_constants"]

CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
"""Functions that are called once where their argument is constant."""

_SEARCHES: Final = frozenset({"find", "findAll"})


def check_constants(checked: Checked) -> None:
    """Convert every constant that is converted, also one that was converted before, and read every constant pattern.

    Raises:
        InstantiationError: one of them is wrong, wherever it stands.
    """
    nodes: list[Expression] = []
    pending = [checked.root]
    while pending:
        nodes.append(pending.pop())
        pending.extend(children(nodes[-1]))
    values: dict[int, object] = {}
    for node in reversed(nodes):
        if isinstance(node, Constant):
            values[node.id] = node.value
        elif isinstance(node, Call):
            _call(checked, node, values)


def _call(checked: Checked, node: Call, values: dict[int, object]) -> None:
    """One call whose arguments have been seen to; its value is kept where it is constant."""
    if node.function in _SEARCHES and node.target is not None and node.args:
        pattern = values.get(node.args[0].id)
        if isinstance(pattern, str):
            try:
                check_pattern(pattern)
            except PatternError as error:
                raise InstantiationError(str(error)) from error
    elif node.function in CONVERSIONS and node.target is None and len(node.args) == 1 and node.args[0].id in values:
        convert = dispatcher(checked.overloads[node.id], checked.environment.matches)
        try:
            values[node.id] = convert(values[node.args[0].id])
        except EvaluationError as error:
            raise InstantiationError(str(error)) from error
