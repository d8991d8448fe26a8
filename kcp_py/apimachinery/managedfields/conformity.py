"""Whether an applied configuration fits its type: what an apply refuses before anything is merged.

Source: structured-merge-diff `typed/validate.go`. Scalars are not looked at: the schema says more about them, later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kcp_py.apimachinery.managedfields.fieldsets import show
from kcp_py.apimachinery.managedfields.types import SCALAR, MergeType
from kcp_py.apimachinery.managedfields.walks import item_element

__all__ = ["MAX_PROBLEMS", "typed_problems"]

MAX_PROBLEMS: Final = 20


def typed_problems(kind: MergeType, value: Any) -> list[str]:
    """What does not fit, in upstream's words: unknown fields, other shapes, items without keys or with the same ones."""
    found: list[str] = []
    for problem in _problems(kind, value, ""):
        found.append(problem)
        if len(found) >= MAX_PROBLEMS:
            break
    return found


def _problems(kind: MergeType, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    if kind.kind == "map":
        if not isinstance(value, dict):
            yield f"{path}: expected map, got {_got(value)}"
        else:
            yield from _map_problems(kind, value, path)
    elif kind.kind == "list":
        if not isinstance(value, list):
            yield f"{path}: expected list, got {_got(value)}"
        else:
            yield from _list_problems(kind, value, path)


def _map_problems(kind: MergeType, value: dict[str, Any], path: str) -> Iterator[str]:
    for name, child in value.items():
        found = kind.fields.get(name) or kind.element
        if found is None:
            yield f"{path}.{name}: field not declared in schema"
        elif found is not SCALAR:
            yield from _problems(found, child, f"{path}.{name}")


def _list_problems(kind: MergeType, value: list[Any], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if kind.list_type == "map":
            missing = [name for name in kind.keys if name not in kind.key_defaults and (not isinstance(item, dict) or name not in item)]
            if missing:
                detail = f'associative list with keys has an element that omits key field "{missing[0]}" (and doesn\'t have default value)'
                yield f"{path}: element {index}: {detail}"
                continue
        if kind.list_type:
            element = item_element(kind, item, index)
            place = show((element,))
            if element in seen:
                yield f"{path}: duplicate entries for key {place}"
            seen.add(element)
        if kind.element is not None:
            yield from _problems(kind.element, item, path + place)


def _got(value: Any) -> str:
    """What there is instead."""
    match value:
        case dict():
            return "map"
        case list():
            return "list"
        case str():
            return f"&{{{value[:100]}}}"
        case _:
            return f"&{{{str(value).lower()}}}"
