"""Whether an applied configuration fits its type: what an apply refuses before anything is merged.

Source: structured-merge-diff `typed/validate.go`, `typed/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kcp_py.apimachinery.managedfields.fieldsets import show
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.apimachinery.managedfields.values import item_element
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.types import go_syntax, go_text, go_type

__all__ = ["MAX_PROBLEMS", "typed_problems"]

MAX_PROBLEMS: Final = 20
_SHOWN: Final = 200


def typed_problems(kind: MergeType, value: Any) -> list[str]:
    """What does not fit, in upstream's words: unknown fields, other shapes, items without keys or with the same ones."""
    found: list[str] = []
    if _fits(kind, value):
        return found
    for problem in _problems(kind, value, ""):
        found.append(problem)
        if len(found) >= MAX_PROBLEMS:
            break
    return found


def _fits(kind: MergeType, value: Any) -> bool:
    """Whether `_problems` finds nothing: in a third of its time, since nearly all configurations fit."""
    if value is None:
        return True
    match kind.kind:
        case "map":
            if type(value) is not dict:
                return False
            named, other = kind.fields, kind.element
            for name, child in value.items():
                found = named.get(name) or other
                if found is None:
                    return False
                if not (type(child) is str and found.scalar == "string") and not _fits(found, child):
                    return False
        case "list":
            if type(value) is not list or (kind.list_type and not _items_fit(kind, value)):
                return False
            if kind.element is not None:
                for item in value:
                    if not _fits(kind.element, item):
                        return False
        case "scalar":
            return not _scalar_problem(kind.scalar, value)
    return True


def _items_fit(kind: MergeType, value: list[Any]) -> bool:
    """Whether the items of a list can be told from each other."""
    seen: set[str] = set()
    for index, item in enumerate(value):
        if _item_problem(kind, item) or (element := item_element(kind, item, index)) in seen:
            return False
        seen.add(element)
    return True


def _problems(kind: MergeType, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    match kind.kind:
        case "map":
            if isinstance(value, dict):
                yield from _map_problems(kind, value, path)
            else:
                yield f"{path}: expected map, got &{{{_shown(value)}}}"
        case "list":
            if isinstance(value, list):
                yield from _list_problems(kind, value, path)
            else:
                yield f"{path}: expected list, got &{{{_shown(value)}}}"
        case "scalar":
            if problem := _scalar_problem(kind.scalar, value):
                yield f"{path}: {problem}"


def _scalar_problem(scalar: str, value: Any) -> str:
    """Why a value is not a scalar of a type; empty where it is one."""
    match scalar:
        case "numeric" if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {go_type(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_cut(go_syntax(value))}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{_shown(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{_shown(value)}}}"
    return ""


def _map_problems(kind: MergeType, value: dict[str, Any], path: str) -> Iterator[str]:
    for name, child in value.items():
        found = kind.fields.get(name) or kind.element
        if found is None:
            yield f"{path}.{name}: field not declared in schema"
        else:
            yield from _problems(found, child, f"{path}.{name}")


def _list_problems(kind: MergeType, value: list[Any], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if kind.list_type:
            if problem := _item_problem(kind, item):
                yield f"{path}: element {index}: {problem}"
                return
            element = item_element(kind, item, index)
            place = show((element,))
            if element in seen:
                yield f"{path}: duplicate entries for key {place}"
            seen.add(element)
        if kind.element is not None:
            yield from _problems(kind.element, item, path + place)


def _item_problem(kind: MergeType, item: Any) -> str:
    """Why an item of a list cannot be told from others; empty where it can."""
    if kind.list_type == "set":
        match item:
            case dict():
                return "associative list without keys has an element that's a map type"
            case list():
                return "not supported: associative list with lists as elements"
            case None:
                return "associative list without keys has an element that's an explicit null"
        return ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if kind.keys and not any(name in item or name in kind.key_defaults for name in kind.keys):
        names = f"[{' '.join(map(go_quote, kind.keys))}] (and doesn't have default values for any key fields)"
        return f"associative list with keys has an element that omits all key fields {names}"
    return ""


def _shown(value: Any) -> str:
    return _cut(go_text(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
