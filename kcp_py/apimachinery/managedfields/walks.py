"""Walks over typed values: which fields there are, what differs, the merge of two, and what is left when fields are taken away.

Source: structured-merge-diff `typed/{tofieldset,compare,merge,remove}.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kcp_py.apimachinery.managedfields.fieldsets import EMPTY, OWN, FieldSet, child_type, key_element, value_element
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType

__all__ = ["Comparison", "DuplicateKeyError", "compare", "fields_of", "merge", "remove"]

_ABSENT: Final[Any] = object()
_LEAF: Final[FieldSet] = {OWN: True}


class DuplicateKeyError(ValueError):
    """Two elements of an applied list have the same keys. `str()` is upstream's text without the object's place."""


@dataclass(slots=True)
class Comparison:
    """How one value became another."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.added and not self.modified and not self.removed


def _shape(kind: MergeType, value: Any) -> str:
    """What a value is taken for: `map`, `list`, or `scalar`, which has no parts."""
    found = type(value)
    if found is dict:
        return "map" if kind.kind in {"map", "deduced"} else "scalar"
    if found is list:
        return "list" if kind.kind == "list" else "scalar"
    return "scalar"


def _item(kind: MergeType, item: Any, index: int) -> str:
    """The path element of a list's item."""
    if kind.list_type == "map" and isinstance(item, dict):
        keys = {name: item.get(name, kind.key_defaults.get(name)) for name in kind.keys if name in item or name in kind.key_defaults}
        if keys:
            return key_element(keys)
        return f"i:{index}"
    return value_element(item)


def _index(kind: MergeType, items: list[Any]) -> dict[str, list[Any]]:
    """The items of a list by path element, in order."""
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        found.setdefault(_item(kind, item, index), []).append(item)
    return found


def fields_of(kind: MergeType, value: Any) -> FieldSet:
    """All fields that a value has: what its writer owns."""
    match _shape(kind, value):
        case "map":
            return _map_fields(kind, value)
        case "list":
            return _list_fields(kind, value)
        case _:
            return EMPTY if value is None else _LEAF


def _map_fields(kind: MergeType, value: dict[str, Any]) -> FieldSet:
    if kind.atomic:
        return _LEAF
    result: FieldSet = {}
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in value.items():
        found = named.get(name)
        below = fields_of(other if found is None else found, child)
        if found is None or child is None or child == {}:
            below = {OWN: True, **below} if below else _LEAF
        if below:
            result[f"f:{name}"] = below
    return result


def _list_fields(kind: MergeType, value: list[Any]) -> FieldSet:
    if kind.atomic or not kind.list_type:
        return _LEAF
    result: FieldSet = {}
    element = kind.element or SCALAR
    for path_element, items in _index(kind, value).items():
        # Items that stand there several times are owned as one.
        below = fields_of(element, items[0]) if len(items) == 1 else EMPTY
        result[path_element] = {OWN: True, **below} if below else _LEAF
    return result


def compare(kind: MergeType, old: Any, new: Any) -> Comparison:
    """How `old` became `new`, field by field."""
    comparison = Comparison()
    _compare(kind, old, new, (comparison.added, comparison.modified, comparison.removed))
    return comparison


_Sets = tuple[FieldSet, FieldSet, FieldSet]


def _compare(kind: MergeType, old: Any, new: Any, sets: _Sets) -> None:
    """Fill the sets of one place; `_ABSENT` is no value."""
    added, modified, removed = sets
    shape, old_shape = _shape(kind, new), _shape(kind, old)
    leaf = kind.atomic or (kind.kind == "list" and not kind.list_type)
    if not leaf and old is not _ABSENT and new is not _ABSENT and shape == old_shape != "scalar" and (old or new):
        (_compare_maps if shape == "map" else _compare_lists)(kind, old, new, sets)
        return
    if old is _ABSENT:
        added.update(_everything(kind, new, leaf=leaf))
    elif new is _ABSENT:
        removed.update(_everything(kind, old, leaf=leaf))
    elif not _same(old, new):
        modified[OWN] = True
        if shape != old_shape and not leaf:
            # What was a map or list has become something else, or the reverse: its parts come and go, too.
            removed.update({name: below for name, below in _everything(kind, old, leaf=leaf).items() if name != OWN})
            added.update({name: below for name, below in _everything(kind, new, leaf=leaf).items() if name != OWN})


def _everything(kind: MergeType, value: Any, *, leaf: bool) -> FieldSet:
    """A place that is there on one side only, and all that is below."""
    if leaf:
        return _LEAF
    match _shape(kind, value):
        case "map":
            below = {f"f:{name}": _nested(child_type(kind, f"f:{name}"), child) for name, child in value.items()}
        case "list":
            below = {
                element: _nested(kind.element or SCALAR, items[0]) if len(items) == 1 else _LEAF
                for element, items in _index(kind, value).items()
            }
        case _:
            return _LEAF
    return {OWN: True, **below}


def _nested(kind: MergeType, value: Any) -> FieldSet:
    return _everything(kind, value, leaf=kind.atomic or (kind.kind == "list" and not kind.list_type))


def _compare_maps(kind: MergeType, old: dict[str, Any], new: dict[str, Any], sets: _Sets) -> None:
    for name, child in new.items():
        before = old.get(name, _ABSENT)
        if (before is not child and before != child) or type(before) is not type(child) or type(child) in {dict, list}:
            _below(child_type(kind, f"f:{name}"), before, child, (f"f:{name}", sets))
    for name, child in old.items():
        if name not in new:
            _below(child_type(kind, f"f:{name}"), child, _ABSENT, (f"f:{name}", sets))


def _compare_lists(kind: MergeType, old: list[Any], new: list[Any], sets: _Sets) -> None:
    added, modified, removed = sets
    before, after = _index(kind, old), _index(kind, new)
    element = kind.element or SCALAR
    for path_element in before | after:
        one, other = before.get(path_element, []), after.get(path_element, [])
        if len(one) <= 1 and len(other) <= 1:
            _below(element, one[0] if one else _ABSENT, other[0] if other else _ABSENT, (path_element, sets))
        elif not one:
            added[path_element] = _LEAF
        elif not other:
            removed[path_element] = _LEAF
        elif not _same(one, other):
            modified[path_element] = _LEAF


def _below(kind: MergeType, old: Any, new: Any, place: tuple[str, _Sets]) -> None:
    """Compare what is behind a path element, and keep what is found there."""
    path_element, sets = place
    inner: _Sets = ({}, {}, {})
    _compare(kind, old, new, inner)
    for outer, found in zip(sets, inner, strict=True):
        if found:
            outer[path_element] = found


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values; a bool is no number."""
    if one is other:
        return True
    kind, other_kind = type(one), type(other)
    if kind is dict and other_kind is dict:
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if kind is list and other_kind is list:
        return len(one) == len(other) and all(map(_same, one, other))
    return (kind is bool) is (other_kind is bool) and bool(one == other)


def merge(kind: MergeType, live: Any, applied: Any) -> Any:
    """The live value with the applied one laid over it. Neither is changed; parts of both are shared.

    Raises:
        DuplicateKeyError: an applied list has items with the same keys.
    """
    shape = _shape(kind, applied)
    if shape == "scalar" or kind.atomic or _shape(kind, live) != shape or (kind.kind == "list" and not kind.list_type):
        if shape == "list" and kind.list_type:
            _merge_lists(kind, [], applied)
        return applied if shape != "map" or kind.atomic or not applied else _merge_maps(kind, {}, applied)
    if not live and not applied:
        return applied
    return _merge_maps(kind, live, applied) if shape == "map" else _merge_lists(kind, live, applied)


def _merge_maps(kind: MergeType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    result = dict(live)
    for name, child in applied.items():
        result[name] = merge(child_type(kind, f"f:{name}"), live.get(name, _ABSENT), child)
    return result


def _merge_lists(kind: MergeType, live: list[Any], applied: list[Any]) -> list[Any]:
    """Applied items keep their order; live ones keep theirs among them (`mergingWalker.visitListItems`)."""
    theirs = _index(kind, applied)
    for path_element, items in theirs.items():
        if len(items) > 1:
            raise DuplicateKeyError(f"duplicate entries for key {_key_text(path_element)}")
    mine = [_item(kind, item, index) for index, item in enumerate(live)]
    known = {path_element: items[0] for path_element, items in _index(kind, live).items() if len(items) == 1}
    element = kind.element or SCALAR
    order = list(theirs)
    shared = iter([path_element for path_element in order if path_element in set(mine)])
    wanted = next(shared, None)
    merged: set[str] = set()
    result: list[Any] = []

    def take(path_element: str) -> None:
        merged.add(path_element)
        result.append(merge(element, known.get(path_element, _ABSENT), theirs[path_element][0]))

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
    return result


def _key_text(path_element: str) -> str:
    from kcp_py.apimachinery.managedfields.fieldsets import show  # noqa: PLC0415

    return show((path_element,))


def remove(kind: MergeType, value: Any, fields: FieldSet) -> Any:
    """The value without its members of a set; containers that lose everything go, too (None where that is the whole)."""
    shape = _shape(kind, value)
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
        elif OWN not in below:
            result[name] = remove(child_type(kind, f"f:{name}"), child, below)
    return result


def _remove_from_list(kind: MergeType, value: list[Any], fields: FieldSet) -> list[Any]:
    if not kind.list_type:
        return value
    return list(_kept_items(kind, value, fields))


def _kept_items(kind: MergeType, value: list[Any], fields: FieldSet) -> Iterator[Any]:
    element = kind.element or SCALAR
    for index, item in enumerate(value):
        below = fields.get(_item(kind, item, index))
        if below is None:
            yield item
        elif OWN not in below:
            yield remove(element, item, below)
