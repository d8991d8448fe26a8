"""Steps of JSONPath expressions: each maps the values found so far to the values that it finds in them.

Source: k8s.io/client-go `util/jsonpath/jsonpath.go` with missing keys allowed. `NoMatchError` is raised where upstream's evaluation fails.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final

from kcp_py.golang.regexp import PatternError, compile_pattern

Step = Callable[[list[Any]], list[Any]]
_MAX_VALUES: Final = 10_000
"""Values that one step may yield: repeated `..` would otherwise multiply them."""


class NoMatchError(Exception):
    """The evaluation fails, as upstream's does."""


_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_MAX_INDEX_DIGITS: Final = 18


def _bounded(found: list[Any]) -> list[Any]:
    if len(found) > _MAX_VALUES:
        raise NoMatchError
    return found


def constant(value: Any) -> Step:
    """One value for each of those found so far."""
    return lambda found: [value] * len(found)


def field_step(name: str) -> Step:
    """`.name`."""
    return lambda found: [value[name] for value in found if type(value) is dict and name in value]


def _children(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value.values())
    return value if type(value) is list else []


def wildcard(found: list[Any]) -> list[Any]:
    """`.*`."""
    return _bounded([child for value in found for child in _children(value)])


def recurse(found: list[Any]) -> list[Any]:
    """`..`: all containers below, those found included, parents first."""
    result: list[Any] = []
    pending = list(reversed(found))
    while pending:
        value = pending.pop()
        if children := _children(value):
            result.append(value)
            _bounded(result)
            pending.extend(reversed(children))
    return result


def union(branches: list[tuple[Step, ...]]) -> Step:
    """`[a, b]`: the values of all branches, in the order of the branches."""
    return lambda found: _bounded([value for steps in branches for value in _run(steps, found)])


def _run(steps: tuple[Step, ...], found: list[Any]) -> list[Any]:
    for step in steps:
        found = step(found)
    return found


def slice_step(text: str) -> Step:
    """`[first:last:step]`, `[index]` or `[*]`; `text` is what the brackets contain.

    Raises:
        ValueError: the text is not an index or a slice.
    """
    parts = _SLICE.fullmatch(":" if text == "*" else text)
    if parts is None or any(len(part or "") > _MAX_INDEX_DIGITS for part in parts.groups()):
        raise ValueError(f"invalid array index {text}")
    first, last, step = (None if part is None else part.removeprefix(":") for part in parts.groups())
    if any(part == "-" for part in (first, last, step)):
        raise ValueError(f"array index {first if first == '-' else '-'} is not a number")
    start = int(first or 0)
    derived = last is None
    stop = start + 1 if derived else int(last) if last else None
    stride = int(step) if step else 1

    def take(found: list[Any]) -> list[Any]:
        result: list[Any] = []
        for value in found:
            if value is None:
                continue
            if type(value) is not list:
                raise NoMatchError
            size = len(value)
            low = start + size if start < 0 else start
            high = size if stop is None else stop
            if high < 0 or (high == 0 and derived):
                high += size
            if low == high:
                return result
            if not (0 <= low < size and 0 <= high <= size and low <= high and stride > 0):
                raise NoMatchError
            result.extend(value[low:high:stride])
        return _bounded(result)

    return take


def exists_filter(steps: tuple[Step, ...]) -> Step:
    """`[?(@.a)]`: the elements in which the steps find something."""

    def keep(element: Any) -> bool:
        try:
            return bool(_run(steps, [element]))
        except NoMatchError:
            return False

    return _filtered(keep)


def compare_filter(left: tuple[Step, ...], compare: Callable[[Any, Any], bool], right: tuple[Step, ...]) -> Step:
    """`[?(@.a==1)]`: the elements for which the comparison of both sides holds."""

    def keep(element: Any) -> bool:
        lefts = _run(left, [element])
        if not lefts:
            return False
        rights = _run(right, [element])
        if not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise NoMatchError
        return compare(lefts[0], rights[0])

    return _filtered(keep)


def _filtered(keep: Callable[[Any], bool]) -> Step:
    def step(found: list[Any]) -> list[Any]:
        result: list[Any] = []
        for value in found:
            if type(value) is not list:
                raise NoMatchError
            result.extend([element for element in value if keep(element)])
        return _bounded(result)

    return step


_KINDS: Final = {bool: "bool", int: "int", float: "float", str: "string"}


def _comparable(left: Any, right: Any) -> str:
    """Go compares only basic values of the same kind."""
    kind = _KINDS.get(type(left), "")
    if not kind or kind != _KINDS.get(type(right)):
        raise NoMatchError
    return kind


def _equal(left: Any, right: Any) -> bool:
    _comparable(left, right)
    return bool(left == right)


def _not_equal(left: Any, right: Any) -> bool:
    return not _equal(left, right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def check(left: Any, right: Any) -> bool:
        if _comparable(left, right) == "bool":
            raise NoMatchError
        return compare(left, right)

    return check


def _matches(left: Any, right: Any) -> bool:
    if type(left) is not str or type(right) is not str:
        raise NoMatchError
    try:
        return compile_pattern(right)(left)
    except PatternError:
        raise NoMatchError from None


OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": _not_equal,
    "<": _ordered(operator.lt),
    ">": _ordered(operator.gt),
    "<=": _ordered(operator.le),
    ">=": _ordered(operator.ge),
    "=~": _matches,
}
