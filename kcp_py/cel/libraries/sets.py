"""Lists taken as sets (cel-go `ext/sets.go`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.membership import Members
from kcp_py.cel.types import BOOL, list_of, type_parameter

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SETS"]

_LIST: Final = list_of(type_parameter("T"))


def _contains(items: list[object], part: list[object]) -> bool:
    """Whether everything of `part` is in `items`."""
    members = Members(items)
    return all(item in members for item in part)


def _equivalent(one: list[object], other: list[object]) -> bool:
    """Whether each holds everything of the other."""
    return _contains(one, other) and _contains(other, one)


def _intersects(one: list[object], other: list[object]) -> bool:
    """Whether something is in both."""
    members = Members(other)
    return any(item in members for item in one)


def _function(name: str, run: Callable[[list[object], list[object]], bool]) -> Function:
    """A relation of two lists."""
    return Function(f"sets.{name}", (Overload(f"list_sets_{name}_list", (_LIST, _LIST), BOOL, implementation=run),))


SETS: Final = Library(
    "cel.lib.ext.sets",
    functions=(_function("contains", _contains), _function("equivalent", _equivalent), _function("intersects", _intersects)),
)
