"""Checked tree -> Python source -> a function. Nothing of an expression's text reaches the source but literals, through `repr`.

The shape of the source: one function with the budget and the variables as its parameters; whatever needs a statement (loops, operators that
absorb errors) is written before the expression that uses its result. Python's own errors stand for CEL's where they are as good: a
`KeyError` is "no such key", a `TypeError` or `AttributeError` "no such overload".

Cost is charged in advance: once for the parts of a function or of a loop's body that have constant cost, times the elements of the list
that is walked, and for each call whose cost depends on its arguments. A loop that ends early gives back what it did not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import operators, runtime
from kcp_py.cel.adaptation import adapter
from kcp_py.cel.branches import emit_alternative, emit_conditional, emit_junction
from kcp_py.cel.calls import emit_equality, emit_function
from kcp_py.cel.emission import Emission
from kcp_py.cel.errors import too_deep
from kcp_py.cel.loops import emit_comprehension
from kcp_py.cel.selections import emit_optional_select, emit_select
from kcp_py.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Select,
    StructLiteral,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.checked import Checked
    from kcp_py.cel.syntax import Expression

__all__ = ["generate"]


def generate(checked: Checked, variables: Sequence[str]) -> Callable[..., object]:
    """The function that evaluates an expression.

    Args:
        checked: the expression.
        variables: the names of the function's parameters behind the budget, in order.

    Returns:
        (budget, *values) -> value. Raises `EvaluationError` or one of `ERRORS`, and `CostExceededError`.

    Raises:
        CompileError: the expression is nested deeper than the caller's stack leaves room for.
    """
    try:
        return _function(Emission(checked, _EMITTERS), variables)
    except RecursionError as error:
        raise too_deep(checked.text) from error


def _function(code: Emission, variables: Sequence[str]) -> Callable[..., object]:
    """The function that evaluates the expression of an empty `code`."""
    for name in variables:
        code.scope[name] = code.local()
        adapt = adapter(code.checked.environment.variables[name])
        if adapt is not None:
            code.line(f"{code.scope[name]} = {code.constant(adapt)}({code.scope[name]})")
    parameters = ", ".join(["B", *(code.scope[name] for name in variables)])
    result = code.emit(code.checked.root)
    if code.cost:
        code.lines.insert(0, f" B.charge({code.cost})")
    return code.function(parameters, result)


def _emit_constant(code: Emission, node: Constant) -> str:
    """A literal."""
    return code.literal(node.value)


def _emit_identifier(code: Emission, node: Identifier) -> str:
    """A variable or a type."""
    return code.name(code.checked.names.get(node.id, node.name))


def _emit_list(code: Emission, node: ListLiteral) -> str:
    """A list; with optional elements a function drops the absent ones."""
    texts = [code.emit(element) for element in node.elements]
    if not node.optional_indices:
        return f"[{', '.join(texts)}]"
    optional = frozenset(node.optional_indices)
    marks = "".join("?" if index in optional else "." for index in range(len(texts)))
    return f"{code.constant(runtime.list_with_options)}({marks!r}, [{', '.join(texts)}])"


def _emit_map(code: Emission, node: MapLiteral) -> str:
    """A map; keys must differ."""
    pairs = ", ".join(f"({code.emit(entry.key)}, {code.emit(entry.value)}, {entry.optional})" for entry in node.entries)
    return f"{code.constant(runtime.map_literal)}([{pairs}])" if pairs else "{}"


def _emit_struct(code: Emission, node: StructLiteral) -> str:
    """An object, as the dict that it is."""
    fields = code.types[node.id].fields or {}
    pairs = ", ".join(f"({fields[entry.field].key!r}, {code.emit(entry.value)}, {entry.optional})" for entry in node.entries)
    return f"{code.constant(runtime.map_literal)}([{pairs}])" if pairs else "{}"


def _emit_call(code: Emission, node: Call) -> str:
    """An operator or a function."""
    return _SPECIAL.get(node.function, emit_function)(code, node)


_EMITTERS: Final[dict[type[Expression], Callable[[Emission, Any], str]]] = {
    Constant: _emit_constant,
    Identifier: _emit_identifier,
    Select: emit_select,
    Call: _emit_call,
    ListLiteral: _emit_list,
    MapLiteral: _emit_map,
    StructLiteral: _emit_struct,
    Comprehension: emit_comprehension,
}
_SPECIAL: Final[dict[str, Callable[[Emission, Call], str]]] = {
    operators.AND: emit_junction,
    operators.OR: emit_junction,
    operators.CONDITIONAL: emit_conditional,
    operators.EQUALS: emit_equality,
    operators.NOT_EQUALS: emit_equality,
    operators.OPTIONAL_SELECT: emit_optional_select,
    "or": emit_alternative,
    "orValue": emit_alternative,
}
