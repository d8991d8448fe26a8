"""The macros of the language and what they are expanded to (cel-spec, "Macros"; cel-go `parser/macro.go`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel import operators
from kcp_py.cel.declarations import Macro
from kcp_py.cel.expander import MacroError
from kcp_py.cel.syntax import Identifier, Select

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcp_py.cel.expander import Expander
    from kcp_py.cel.syntax import Expression

__all__ = ["STANDARD", "TWO_VARIABLES", "iteration_variable"]


def iteration_variable(expander: Expander, node: Expression) -> str:
    """The name that a macro's argument declares.

    Raises:
        MacroError: it is not a simple name, or is the accumulator's.
    """
    if not isinstance(node, Identifier) or node.name.startswith("."):
        raise MacroError(node, "argument must be a simple name")
    if node.name in {expander.accumulator, "__result__"}:
        raise MacroError(node, "iteration variable overwrites accumulator variable")
    return node.name


def _has(expander: Expander, _target: Expression | None, args: tuple[Expression, ...]) -> Expression:
    """`has(e.f)`."""
    (field,) = args
    if not isinstance(field, Select) or field.test_only:
        raise MacroError(field, "invalid argument to has() macro")
    return expander.presence(field.operand, field.field)


def _names(expander: Expander, nodes: tuple[Expression, ...]) -> tuple[str, str]:
    """One iteration variable, or two that differ."""
    first = iteration_variable(expander, nodes[0])
    if len(nodes) == 1:
        return first, ""
    second = iteration_variable(expander, nodes[1])
    if first == second:
        raise MacroError(nodes[1], f"duplicate variable name: {second}")
    return first, second


def _quantifier(variables: int, *, universal: bool) -> Callable[..., Expression]:
    """`r.all(x, p)`, `r.exists(x, p)`, and both with `i, x`: they go on until an element decides."""

    def expand(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
        one, two = _names(expander, args[:variables])
        init = expander.constant(universal)
        undecided: Expression = expander.result()
        if not universal:
            undecided = expander.call(operators.NOT, undecided)
        return expander.fold(
            target,
            one,
            two,
            init=init,
            condition=expander.call(operators.NOT_STRICTLY_FALSE, undecided),
            step=expander.call(operators.AND if universal else operators.OR, expander.result(), args[variables]),
            result=expander.result(),
        )

    return expand


def _exists_one(variables: int) -> Callable[..., Expression]:
    """`r.exists_one(x, p)` and `r.existsOne(i, x, p)`."""

    def expand(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
        one, two = _names(expander, args[:variables])
        increased = expander.call(operators.ADD, expander.result(), expander.constant(1))
        return expander.fold(
            target,
            one,
            two,
            init=expander.constant(0),
            condition=expander.constant(value=True),
            step=expander.call(operators.CONDITIONAL, args[variables], increased, expander.result()),
            result=expander.call(operators.EQUALS, expander.result(), expander.constant(1)),
        )

    return expand


def _transform_list(variables: int) -> Callable[..., Expression]:
    """`r.map(x, t)`, `r.map(x, p, t)`, `r.transformList(i, x, [p,] t)`."""

    def expand(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
        one, two = _names(expander, args[:variables])
        step: Expression = expander.call(operators.ADD, expander.result(), expander.list(args[-1]))
        return _accumulate(expander, target, (one, two), init=expander.list(), filters=args[variables:-1], step=step)

    return expand


def _filter(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
    """`r.filter(x, p)`."""
    name = iteration_variable(expander, args[0])
    step = expander.call(operators.ADD, expander.result(), expander.list(expander.identifier(name)))
    return _accumulate(expander, target, (name, ""), init=expander.list(), filters=args[1:], step=step)


def _transform_map(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
    """`r.transformMap(k, v, [p,] t)`: the keys stay."""
    one, two = _names(expander, args[:2])
    step = expander.call("cel.@mapInsert", expander.result(), expander.identifier(one), args[-1])
    return _accumulate(expander, target, (one, two), init=expander.map(), filters=args[2:-1], step=step)


def _transform_map_entry(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
    """`r.transformMapEntry(k, v, [p,] {k: v})`."""
    one, two = _names(expander, args[:2])
    step = expander.call("cel.@mapInsert", expander.result(), args[-1])
    return _accumulate(expander, target, (one, two), init=expander.map(), filters=args[2:-1], step=step)


def _accumulate(
    expander: Expander,
    target: Expression,
    names: tuple[str, str],
    *,
    init: Expression,
    filters: tuple[Expression, ...],
    step: Expression,
) -> Expression:
    """A fold over everything, with at most one condition on taking a step."""
    if filters:
        step = expander.call(operators.CONDITIONAL, filters[0], step, expander.result())
    return expander.fold(
        target,
        *names,
        init=init,
        condition=expander.constant(value=True),
        step=step,
        result=expander.result(),
    )


STANDARD: Final = (
    Macro("has", 1, receiver=False, expand=_has),
    Macro("all", 2, receiver=True, expand=_quantifier(1, universal=True)),
    Macro("exists", 2, receiver=True, expand=_quantifier(1, universal=False)),
    Macro("exists_one", 2, receiver=True, expand=_exists_one(1)),
    Macro("existsOne", 2, receiver=True, expand=_exists_one(1)),
    Macro("map", 2, receiver=True, expand=_transform_list(1)),
    Macro("map", 3, receiver=True, expand=_transform_list(1)),
    Macro("filter", 2, receiver=True, expand=_filter),
)
TWO_VARIABLES: Final = (
    Macro("all", 3, receiver=True, expand=_quantifier(2, universal=True)),
    Macro("exists", 3, receiver=True, expand=_quantifier(2, universal=False)),
    Macro("existsOne", 3, receiver=True, expand=_exists_one(2)),
    Macro("exists_one", 3, receiver=True, expand=_exists_one(2)),
    Macro("transformList", 3, receiver=True, expand=_transform_list(2)),
    Macro("transformList", 4, receiver=True, expand=_transform_list(2)),
    Macro("transformMap", 3, receiver=True, expand=_transform_map),
    Macro("transformMap", 4, receiver=True, expand=_transform_map),
    Macro("transformMapEntry", 3, receiver=True, expand=_transform_map_entry),
    Macro("transformMapEntry", 4, receiver=True, expand=_transform_map_entry),
)
