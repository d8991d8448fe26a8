"""The syntax tree: what the parser makes, with macros expanded, and what checker, estimate and generator read.

The shapes follow cel-spec's `syntax.proto`, because cel-go's cost model is defined over them. Nodes compare by identity: results about a
node (its type, its overloads) are kept in dicts keyed by `Expression.id`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Call",
    "Comprehension",
    "Constant",
    "Entry",
    "Expression",
    "Identifier",
    "ListLiteral",
    "MacroCall",
    "MapLiteral",
    "Select",
    "StructEntry",
    "StructLiteral",
    "children",
    "copied",
    "qualified_name",
]


@dataclass(slots=True, eq=False)
class Expression:
    """Base of all nodes.

    Attributes:
        id: unique inside one tree, from 1.
        position: offset in characters of the place that errors about this node point at (the operator of a call, the `.` of a selection).
        macro: the call as it was written, when this node is what a macro was expanded to; the generator has shorter code for some.
    """

    id: int
    position: int
    macro: MacroCall | None = field(default=None, kw_only=True)


@dataclass(slots=True, eq=False)
class MacroCall:
    """A macro as written: `target.function(args)`; global macros such as `has(x)` have the `target` None."""

    function: str
    target: Expression | None
    args: tuple[Expression, ...]


@dataclass(slots=True, eq=False)
class Constant(Expression):
    """A literal: None, bool, int, `values.UInt`, float, str or bytes."""

    value: object


@dataclass(slots=True, eq=False)
class Identifier(Expression):
    """A variable, a type's name, or the first segment of a qualified name (`a.b.c` is Select(Select(a, b), c) until checked)."""

    name: str


@dataclass(slots=True, eq=False)
class Select(Expression):
    """`operand.field`; with `test_only` what `has(operand.field)` became. `operand.?field` is the call `_?._`."""

    operand: Expression
    field: str
    test_only: bool = False


@dataclass(slots=True, eq=False)
class Call(Expression):
    """A call, operators included, named as cel-go names them (`operators.py`): `_+_`, `_[_]`, `_?_:_`, `@in`, `!_`, `startsWith`."""

    function: str
    target: Expression | None
    args: tuple[Expression, ...]


@dataclass(slots=True, eq=False)
class ListLiteral(Expression):
    """`[a, ?b]`: `optional_indices` are the positions written with `?`."""

    elements: tuple[Expression, ...]
    optional_indices: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Entry:
    """One entry of a map literal: `key: value` or `?key: value`."""

    id: int
    key: Expression
    value: Expression
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral(Expression):
    """`{k: v, ?o: w}`."""

    entries: tuple[Entry, ...]


@dataclass(slots=True, eq=False)
class StructEntry:
    """One field of an object literal: `field: value` or `?field: value`."""

    id: int
    position: int
    field: str
    value: Expression
    optional: bool = False


@dataclass(slots=True, eq=False)
class StructLiteral(Expression):
    """`Object.spec{field: value}`."""

    name: str
    entries: tuple[StructEntry, ...]


@dataclass(slots=True, eq=False)
class Comprehension(Expression):
    """The fold that `all`, `exists`, `map`, `cel.bind` … are expanded to (cel-spec, "Macros"; cel-go parser/macro.go).

    Attributes:
        iter_range: the list or map that is walked.
        iter_var: the element of a list, the key of a map; with `iter_var2` the index of a list, the key of a map.
        iter_var2: the element or value of the two-variable forms, else "".
        accu_var: name of the accumulator, `@result` unless bound by the user (`cel.bind`).
        accu_init: its first value.
        loop_condition: evaluated before each step; false ends the walk.
        loop_step: the accumulator's next value.
        result: the value of the whole, of the accumulator only.
    """

    iter_range: Expression
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Expression
    loop_condition: Expression
    loop_step: Expression
    result: Expression


def children(node: Expression) -> tuple[Expression, ...]:
    """The nodes directly below, in the order of the text; of a comprehension in the order of evaluation."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case StructLiteral():
            return tuple(entry.value for entry in node.entries)
        case Comprehension():
            return (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)
        case _:
            return ()


def qualified_name(node: Expression) -> str | None:
    """`a.b.c` as text where a node is a plain chain of names."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, Identifier) else None


def copied(node: Expression, new_id: Callable[[], int]) -> Expression:
    """A tree of the same shape with other ids.

    Args:
        node: the tree. The macro calls that it was expanded from are copied too, so that errors about the copy show the same text.
        new_id: gives them.
    """
    done: dict[int, Expression] = {}

    def copy(part: Expression) -> Expression:
        # The call of a macro shares nodes with its expansion.
        known = done.get(part.id)
        if known is None:
            known = done[part.id] = _copied_node(part, new_id(), copy, new_id)
            if part.macro is not None:
                target = part.macro.target
                args = tuple(map(copy, part.macro.args))
                known.macro = MacroCall(part.macro.function, None if target is None else copy(target), args)
        return known

    return copy(node)


def _copied_node(node: Expression, number: int, copy: Callable[[Expression], Expression], new_id: Callable[[], int]) -> Expression:
    """One node with copies of the nodes below it."""
    match node:
        case Select():
            return replace(node, id=number, operand=copy(node.operand))
        case Call():
            target = None if node.target is None else copy(node.target)
            return replace(node, id=number, target=target, args=tuple(map(copy, node.args)))
        case ListLiteral():
            return replace(node, id=number, elements=tuple(map(copy, node.elements)))
        case MapLiteral():
            entries = tuple(replace(entry, id=new_id(), key=copy(entry.key), value=copy(entry.value)) for entry in node.entries)
            return replace(node, id=number, entries=entries)
        case StructLiteral():
            fields = tuple(replace(entry, id=new_id(), value=copy(entry.value)) for entry in node.entries)
            return replace(node, id=number, entries=fields)
        case Comprehension():
            return replace(
                node,
                id=number,
                iter_range=copy(node.iter_range),
                accu_init=copy(node.accu_init),
                loop_condition=copy(node.loop_condition),
                loop_step=copy(node.loop_step),
                result=copy(node.result),
            )
        case _:
            return replace(node, id=number)
