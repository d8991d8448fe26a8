"""Kubernetes' functions of lists (apiserver `pkg/cel/library/lists.go`)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.arithmetic import to_int, to_uint
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.dispatch import NO_SUCH_OVERLOAD
from kcp_py.cel.equality import contains, equal
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.ordering import COMPARABLE, are_comparable, is_less
from kcp_py.cel.times import new_duration
from kcp_py.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, UINT, Type, list_of, type_parameter
from kcp_py.cel.values import Duration, UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["KUBERNETES_LISTS"]

_A: Final = type_parameter("A")
_LIST: Final = list_of(_A)
# A name for each type, which upstream's overload ids have in them.
_NAMES: Final = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}
_SUMMABLE: Final = (INT, UINT, DOUBLE, DURATION)
_ADD: Final[dict[type, Callable[[Any, Any], Any]]] = {
    int: lambda one, other: to_int(one + other),
    UInt: lambda one, other: to_uint(int(one) + int(other)),
    float: lambda one, other: one + other,
    Duration: lambda one, other: new_duration(one.nanoseconds + other.nanoseconds),
}
_ZEROS: Final = {"int": 0, "uint": UInt(0), "double": 0.0, "google.protobuf.Duration": Duration(0)}


def _check_comparable(items: list[Any]) -> None:
    """Refuse elements without an order."""
    if not are_comparable(items):
        raise EvaluationError(NO_SUCH_OVERLOAD)


def _is_sorted(items: list[Any]) -> bool:
    """Whether no element comes before the one in front of it."""
    _check_comparable(items)
    return not any(is_less(after, before) for before, after in itertools.pairwise(items))


def _sum(kind: Type) -> Callable[[list[Any]], object]:
    """The sum; of nothing, the zero of the list's type."""
    zero = _ZEROS[kind.name]

    def add_up(items: list[Any]) -> object:
        if not items:
            return zero
        wanted = type(items[0])
        add = _ADD.get(wanted)
        if add is None or any(type(item) is not wanted for item in items):
            raise EvaluationError(NO_SUCH_OVERLOAD)
        total = items[0]
        for item in items[1:]:
            total = add(total, item)
        return total

    return add_up


def _extreme(name: str, prefers: Callable[[Any, Any], bool]) -> Callable[[list[Any]], object]:
    """The first element that no other is preferred to."""

    def find(items: list[Any]) -> object:
        _check_comparable(items)
        if not items:
            msg = f"{name} called on empty list"
            raise EvaluationError(msg)
        best = items[0]
        for item in items:
            if prefers(item, best):
                best = item
        return best

    return find


def _place(places: Iterable[int], items: list[object], element: object) -> int:
    """The first of some places at which an element is."""
    return next((place for place in places if equal(items[place], element)), -1)


def _index_of(items: list[object], element: object) -> int:
    """The first place of an element, or -1."""
    return _place(range(len(items)), items, element)


def _last_index_of(items: list[object], element: object) -> int:
    """The last place of an element, or -1."""
    return _place(range(len(items) - 1, -1, -1), items, element)


def _includes(target: object, element: object) -> bool:
    """Whether a list holds an element, or something else is equal to it."""
    return contains(element, target) if isinstance(target, list) else equal(target, element)


def _overloads(
    kinds: Iterable[Type], stem: str, result: Callable[[Type], Type], run: Callable[[Type], Callable[..., object]]
) -> tuple[Overload, ...]:
    """One overload for each type of the elements; `{0}` in `stem` is the type's name."""
    return tuple(
        Overload(stem.format(_NAMES.get(kind.name, kind.name)), (list_of(kind),), result(kind), member=True, implementation=run(kind))
        for kind in kinds
    )


KUBERNETES_LISTS: Final = Library(
    "kubernetes.lists",
    functions=(
        Function("isSorted", _overloads(COMPARABLE, "list_{0}_is_sorted_bool", lambda _: BOOL, lambda _: _is_sorted)),
        Function("sum", _overloads(_SUMMABLE, "list_{0}_sum_{0}", lambda kind: kind, _sum)),
        Function(
            "max",
            _overloads(
                COMPARABLE, "list_{0}_max_{0}", lambda kind: kind, lambda _: _extreme("max", lambda item, best: is_less(best, item))
            ),
        ),
        Function("min", _overloads(COMPARABLE, "list_{0}_min_{0}", lambda kind: kind, lambda _: _extreme("min", is_less))),
        Function("indexOf", (Overload("list_a_index_of_int", (_LIST, _A), INT, member=True, implementation=_index_of),)),
        Function("lastIndexOf", (Overload("list_a_last_index_of_int", (_LIST, _A), INT, member=True, implementation=_last_index_of),)),
        Function("includes", (Overload("list_includes_dyn_dyn", (DYN, DYN), BOOL, member=True, implementation=_includes),)),
    ),
)
