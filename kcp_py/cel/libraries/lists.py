"""More functions of lists (cel-go `ext/lists.go`, version 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import operators
from kcp_py.cel.arithmetic import LARGEST
from kcp_py.cel.declarations import Function, Library, Macro, Overload
from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.expander import MacroError
from kcp_py.cel.macros import iteration_variable
from kcp_py.cel.membership import Members
from kcp_py.cel.ordering import COMPARABLE, are_comparable
from kcp_py.cel.syntax import Call, Comprehension, Identifier, ListLiteral, MacroCall, Select
from kcp_py.cel.types import DYN, INT, list_of, type_parameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcp_py.cel.expander import Expander
    from kcp_py.cel.syntax import Expression

__all__ = ["LISTS"]

_T: Final = type_parameter("T")
_LIST: Final = list_of(_T)
# Each element costs one unit or more, and no evaluation has more of them: so much memory and time is not taken first.
_MOST_ELEMENTS: Final = 1_000_000
_SORT_BY: Final = "@sortByAssociatedKeys"
_SORTED: Final = (ListLiteral, Select, Identifier, Comprehension, Call)


def _slice(items: list[object], start: int, end: int) -> list[object]:
    """The elements from `start` up to, not including, `end`."""
    if start < 0 or end < 0:
        msg = f"cannot slice({start}, {end}), negative indexes not supported"
    elif start > end:
        msg = f"cannot slice({start}, {end}), start index must be less than or equal to end index"
    elif len(items) < end:
        msg = f"cannot slice({start}, {end}), list is length {len(items)}"
    else:
        return items[start:end]
    raise EvaluationError(msg)


def _flatten(items: list[object], depth: int = 1) -> list[object]:
    """The list with the elements of lists in it in their place, `depth` levels deep."""
    if depth < 0:
        msg = "level must be non-negative"
        raise EvaluationError(msg)
    result: list[object] = []
    pending: list[Iterator[object]] = [iter(items)]
    left = _MOST_ELEMENTS
    while pending:
        for item in pending[-1]:
            if type(item) is list and len(pending) <= depth:
                # One list may stand in another many times, and counts as often, even when it is empty.
                left -= len(item) + 1
                if left < 0:
                    raise CostExceededError
                pending.append(iter(item))
                break
            result.append(item)
        else:
            pending.pop()
    return result


def _range(size: int) -> list[int]:
    """The numbers from 0 up to, not including, `size`."""
    if size < 0:
        msg = f"lists.range: size must be non-negative, got {size}"
        raise EvaluationError(msg)
    if size > LARGEST:
        msg = f"lists.range: size {size} exceeds maximum allowed ({LARGEST})"
        raise EvaluationError(msg)
    if size > _MOST_ELEMENTS:
        raise CostExceededError
    return list(range(size))


def _reverse(items: list[object]) -> list[object]:
    """The last element first."""
    return items[::-1]


def _distinct(items: list[object]) -> list[object]:
    """Each element where it comes first."""
    seen = Members()
    return [item for item in items if seen.add(item)]


def _sort(items: list[object]) -> list[object]:
    """The least element first."""
    return _sort_by(items, items)


def _sort_by(items: list[object], keys: list[Any]) -> list[object]:
    """The elements in the order of their keys."""
    if len(items) != len(keys):
        msg = (
            f"{_SORT_BY}() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
        raise EvaluationError(msg)
    if not are_comparable(keys[:1]):
        msg = "list elements must be comparable"
        raise EvaluationError(msg)
    if len(set(map(type, keys))) > 1:
        msg = "list elements must have the same type"
        raise EvaluationError(msg)
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


def _expand_sort_by(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
    """`list.sortBy(x, key)`: the list gets a name, and is sorted by what it is mapped to."""
    if not isinstance(target, _SORTED):
        raise MacroError(target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression")
    name, key = iteration_variable(expander, args[0]), args[1]
    keys = expander.fold(
        expander.result(),
        name,
        init=expander.list(),
        condition=expander.constant(value=True),
        step=expander.call(operators.ADD, expander.result(), expander.list(key)),
        result=expander.result(),
    )
    keys.macro = MacroCall("map", keys.iter_range, args)
    return expander.fold(
        expander.list(),
        "#unused",
        init=target,
        condition=expander.constant(value=False),
        step=expander.result(),
        result=expander.member_call(expander.result(), _SORT_BY, keys),
    )


LISTS: Final = Library(
    "cel.lib.ext.lists",
    functions=(
        Function("slice", (Overload("list_slice", (_LIST, INT, INT), _LIST, member=True, implementation=_slice),)),
        Function(
            "flatten",
            (
                Overload("list_flatten", (list_of(_LIST),), _LIST, member=True, implementation=_flatten),
                Overload("list_flatten_int", (list_of(DYN), INT), list_of(DYN), member=True, implementation=_flatten),
            ),
        ),
        Function("lists.range", (Overload("lists_range", (INT,), list_of(INT), implementation=_range),)),
        Function("reverse", (Overload("list_reverse", (_LIST,), _LIST, member=True, implementation=_reverse),)),
        Function("distinct", (Overload("list_distinct", (_LIST,), _LIST, member=True, implementation=_distinct),)),
        Function(
            "sort",
            tuple(
                Overload(f"list_{kind.name}_sort", (list_of(kind),), list_of(kind), member=True, implementation=_sort)
                for kind in COMPARABLE
            ),
        ),
        Function(
            _SORT_BY,
            tuple(
                Overload(f"list_{kind.name}_sortByAssociatedKeys", (_LIST, list_of(kind)), _LIST, member=True, implementation=_sort_by)
                for kind in COMPARABLE
            ),
        ),
    ),
    macros=(Macro("sortBy", 2, receiver=True, expand=_expand_sort_by),),
)
