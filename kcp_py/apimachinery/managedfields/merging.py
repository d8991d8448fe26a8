"""Merging an applied value into a live one, and removing fields from a value.

Source: structured-merge-diff `typed/{merge,remove}.go`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kcp_py.apimachinery.equality import identical
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, child_type, is_member, show
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType
from kcp_py.apimachinery.managedfields.values import ABSENT, CONTAINERS, MAP_KINDS, item_element, items_by_element, shape_of

__all__ = ["DuplicateKeyError", "merge", "remove"]


class DuplicateKeyError(ValueError):
    """Two elements of an applied list have the same keys. `str()` is upstream's text without the object's place."""


def merge(kind: MergeType, live: Any, applied: Any) -> Any:
    """Lay the applied value over the live one. Returns `live` itself if nothing changes.

    Neither argument is changed. The result shares parts with both.

    Raises:
        DuplicateKeyError: an applied list has items with the same keys.
    """
    leaf = kind.atomic or (kind.kind == "list" and not kind.list_type)
    shape = shape_of(kind, applied)
    if leaf or shape == "scalar":
        if applied is None and live and not leaf and shape_of(kind, live) != "scalar":
            return live  # a null counts as an empty map or list
        return live if identical(live, applied) else applied
    if shape_of(kind, live) != shape or not live:
        if not applied:
            return applied if live != applied else live
        live = {} if shape == "map" else []
    return _merge_maps(kind, live, applied) if shape == "map" else _merge_lists(kind, live, applied)


def _merge_maps(kind: MergeType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] | None = None
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in applied.items():
        before = live.get(name, ABSENT)
        if child is None or type(child) in CONTAINERS:
            below = named.get(name, other)
            if child and before and type(before) is type(child) is dict and below.kind in MAP_KINDS and not below.atomic:
                merged: Any = _merge_maps(below, before, child)
            else:
                merged = merge(below, before, child)
            if merged is before:
                continue
        elif type(before) is type(child) and before == child:
            continue
        else:
            merged = child
        if result is None:
            result = dict(live)
        result[name] = merged
    return live if result is None else result


def _merge_lists(kind: MergeType, live: list[Any], applied: list[Any]) -> list[Any]:
    """Applied items keep their order; live ones keep theirs among them (`mergingWalker.visitListItems`)."""
    theirs = items_by_element(kind, applied)
    for path_element, items in theirs.items():
        if len(items) > 1:
            raise DuplicateKeyError(f"duplicate entries for key {show((path_element,))}")
    mine = [item_element(kind, item, index) for index, item in enumerate(live)]
    there = set(mine)
    known = dict(zip(mine, live, strict=True))
    if len(there) < len(mine):
        for path_element in [name for name, times in Counter(mine).items() if times > 1]:
            del known[path_element]
    element = kind.element or SCALAR
    order = list(theirs)
    shared = iter([path_element for path_element in order if path_element in there])
    wanted = next(shared, None)
    merged: set[str] = set()
    result: list[Any] = []

    def take(path_element: str) -> None:
        merged.add(path_element)
        result.append(merge(element, known.get(path_element, ABSENT), theirs[path_element][0]))

    left = right = 0
    while left < len(mine) or right < len(order):
        if left < len(mine) and right < len(order):
            path_element = mine[left]
            if path_element == order[right]:
                take(path_element)
                left, right = left + 1, right + 1
                wanted = next(shared, None)
                continue
            if path_element in theirs and wanted is not None and wanted != path_element:
                left += 1  # a shared item, but not the one whose turn it is
                continue
        if left < len(mine):
            path_element = mine[left]
            if path_element not in theirs:
                result.append(live[left])
                left += 1
                continue
            if path_element in merged:
                left += 1
        if right < len(order):
            path_element = order[right]
            take(path_element)
            right += 1
            if wanted == path_element:
                wanted = next(shared, None)
    return live if len(result) == len(live) and all(map(operator.is_, result, live)) else result


def remove(kind: MergeType, value: Any, fields: FieldSet) -> Any:
    """The value without the members of a set. Maps and lists that lose all members are removed, too: None if that is the whole value."""
    shape = shape_of(kind, value)
    if shape == "scalar" or not value or kind.atomic:
        return value
    parts = _remove_from_map(kind, value, fields) if shape == "map" else _remove_from_list(kind, value, fields)
    return parts or None


def _remove_from_map(kind: MergeType, value: dict[str, Any], fields: FieldSet) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, child in value.items():
        below = fields.get(f"f:{name}")
        if below is None:
            result[name] = child
        elif not is_member(below):
            result[name] = remove(child_type(kind, f"f:{name}"), child, below)
    return result


def _remove_from_list(kind: MergeType, value: list[Any], fields: FieldSet) -> list[Any]:
    if not kind.list_type:
        return value
    return list(_kept_items(kind, value, fields))


def _kept_items(kind: MergeType, value: list[Any], fields: FieldSet) -> Iterator[Any]:
    element = kind.element or SCALAR
    for index, item in enumerate(value):
        below = fields.get(item_element(kind, item, index))
        if below is None:
            yield item
        elif not is_member(below):
            yield remove(element, item, below)
