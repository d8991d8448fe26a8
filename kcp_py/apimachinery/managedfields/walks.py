"""Walks over typed values: their fields, their differences, merging two values, removing fields.

Source: structured-merge-diff `typed/{tofieldset,compare,merge,remove}.go`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from kcp_py.apimachinery.equality import equal, identical
from kcp_py.apimachinery.managedfields.fieldsets import OWN, FieldSet, child_type, in_order, is_member, key_element, member, value_element
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType

__all__ = ["Comparison", "DuplicateKeyError", "compare", "everything", "fields_of", "item_element", "merge", "remove"]

_ABSENT: Final[Any] = object()
_MAX_KNOWN_KEY: Final = 63
_CONTAINERS: Final = frozenset((dict, list))
_MAPS: Final = frozenset(("map", "deduced"))


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
        return "map" if kind.kind in _MAPS else "scalar"
    if found is list:
        return "list" if kind.kind == "list" else "scalar"
    return "scalar"


def item_element(kind: MergeType, item: Any, index: int) -> str:
    """The path element of a list's item."""
    if kind.list_type != "map" or not isinstance(item, dict):
        return value_element(item)
    if len(kind.keys) == 1:
        value = item.get(kind.keys[0])
        if type(value) is int or (type(value) is str and len(value) <= _MAX_KNOWN_KEY):
            return _key_element(kind.keys[0], value)
    keys = {name: item.get(name, kind.key_defaults.get(name)) for name in kind.keys if name in item or name in kind.key_defaults}
    return key_element(keys) if keys else f"i:{index}"


@lru_cache(maxsize=4096)
def _key_element(name: str, value: str | int) -> str:
    """The path element of an item with the commonest kinds of keys; an apply needs each of them several times."""
    return key_element({name: value})


def _index(kind: MergeType, items: list[Any]) -> dict[str, list[Any]]:
    """The items of a list by path element, in order."""
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        found.setdefault(item_element(kind, item, index), []).append(item)
    return found


def fields_of(kind: MergeType, value: Any) -> FieldSet:
    """All fields that a value has. Its writer owns them."""
    return _fields(kind, value) or {}


def _fields(kind: MergeType, value: Any) -> FieldSet | None:
    """The fields that are owned at a place and below: None for no field, empty for the place as a whole."""
    match _shape(kind, value):
        case "map":
            return _map_fields(kind, value)
        case "list":
            return _list_fields(kind, value)
        case _:
            return None if value is None else {}


def _map_fields(kind: MergeType, value: dict[str, Any]) -> FieldSet | None:
    if kind.atomic:
        return {}
    result: FieldSet = {}
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in value.items():
        found = named.get(name)
        below = _fields(other if found is None else found, child)
        if found is None or child is None or child == {}:
            below = member(below)
        if below is not None:
            result[f"f:{name}"] = below
    return result or None


def _list_fields(kind: MergeType, value: list[Any]) -> FieldSet | None:
    if kind.atomic or not kind.list_type:
        return {}
    result: FieldSet = {}
    element = kind.element or SCALAR
    for path_element, items in _index(kind, value).items():
        # Items that stand there several times are owned as one.
        result[path_element] = member(_fields(element, items[0])) if len(items) == 1 else {}
    return result or None


def everything(kind: MergeType, value: dict[str, Any]) -> FieldSet:
    """The fields that a new object adds, in the order of `fieldsets.ordered`: `compare` with no object."""
    fields = _everything(kind, value)
    fields.pop(OWN, None)
    return fields


def compare(kind: MergeType, old: Any, new: Any) -> Comparison:
    """How `old` became `new`, field by field."""
    added, modified, removed = _compare(kind, old, new, 0) or _NOTHING
    return Comparison(added or {}, modified or {}, removed or {})


_Sets = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
"""Additions, modifications and removals at a place and below; None for nothing, empty for the place as a whole."""

_NOTHING: Final[_Sets] = (None, None, None)
_EQUALITY_DEPTH: Final = 3
"""So many levels are first compared as wholes. Not all of them: that would be quadratic in the depth."""


def _compare(kind: MergeType, old: Any, new: Any, depth: int) -> _Sets | None:
    """How one place changed; None for not at all, `_ABSENT` stands for a missing value."""
    leaf = kind.atomic or (kind.kind == "list" and not kind.list_type)
    if old is _ABSENT:
        return _everything(kind, new), None, None
    if new is _ABSENT:
        return None, None, _everything(kind, old)
    shape, old_shape = _shape(kind, new), _shape(kind, old)
    if not leaf:
        # A null is an empty map or list, as long as the other side is one with something in it.
        if old is None and shape != "scalar" and new:
            old, old_shape = ({} if shape == "map" else []), shape
        elif new is None and old_shape != "scalar" and old:
            new, shape = ({} if old_shape == "map" else []), old_shape
        if shape == old_shape != "scalar" and (old or new):
            return (_compare_maps if shape == "map" else _compare_lists)(kind, old, new, depth + 1)
    if equal(old, new):
        return None
    if shape == old_shape or leaf:
        return None, {}, None
    # A map or list has become something else, or the reverse: its parts come and go, too.
    return _below(_everything(kind, new)), {}, _below(_everything(kind, old))


def _below(node: FieldSet) -> FieldSet | None:
    """The fields below a place, without the place itself."""
    return {element: below for element, below in node.items() if element != OWN} or None


def _everything(kind: MergeType, value: Any) -> FieldSet:
    """A place that is there on one side only, and all that is below, in order."""
    if kind.atomic or not value:
        return {}
    result: FieldSet = {OWN: {}}
    if type(value) is dict and kind.kind in _MAPS:
        named = kind.fields
        other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
        for name in sorted(value):
            child = value[name]
            result[f"f:{name}"] = _everything(named.get(name, other), child) if child and type(child) in _CONTAINERS else {}
        return result
    if type(value) is list and kind.list_type:
        element = kind.element or SCALAR
        found = _index(kind, value)
        for path_element in in_order(found):
            items = found[path_element]
            result[path_element] = _everything(element, items[0]) if len(items) == 1 else {}
        return result
    return {}


def _compare_maps(kind: MergeType, old: dict[str, Any], new: dict[str, Any], depth: int) -> _Sets | None:
    gathered = _Gathered()
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in new.items():
        before = old.get(name, _ABSENT)
        if before is child:
            continue
        if type(before) is type(child):
            if type(child) not in _CONTAINERS:
                if before == child:
                    continue
            elif depth < _EQUALITY_DEPTH and identical(before, child):
                continue
        gathered.add(f"f:{name}", _compare(named.get(name, other), before, child, depth))
    if len(old) + gathered.new != len(new):
        for name, child in old.items():
            if name not in new:
                gathered.add(f"f:{name}", (None, None, _everything(named.get(name, other), child)))
    return gathered.sets()


def _compare_lists(kind: MergeType, old: list[Any], new: list[Any], depth: int) -> _Sets | None:
    gathered = _Gathered()
    before, after = _index(kind, old), _index(kind, new)
    element = kind.element or SCALAR
    for path_element in before | after:
        one, other = before.get(path_element, []), after.get(path_element, [])
        if len(one) <= 1 and len(other) <= 1:
            gathered.add(path_element, _compare(element, one[0] if one else _ABSENT, other[0] if other else _ABSENT, depth))
        elif len(one) > 1 and len(other) > 1:
            gathered.add(path_element, None if equal(one, other) else (None, {}, None))
        else:
            # Items that stand there several times are owned as one.
            gathered.add(path_element, (_items(element, other), None, _items(element, one)))
    return gathered.sets()


def _items(kind: MergeType, items: list[Any]) -> FieldSet | None:
    """What goes or comes with the items that share a path element."""
    if not items:
        return None
    return _everything(kind, items[0]) if len(items) == 1 else {}


class _Gathered:
    """The differences found below a place, by path element."""

    __slots__ = ("_added", "_modified", "_removed", "new")

    def __init__(self) -> None:
        self._added: FieldSet | None = None
        self._modified: FieldSet | None = None
        self._removed: FieldSet | None = None
        self.new = 0
        """Places that are there on the new side only."""

    def add(self, path_element: str, found: _Sets | None) -> None:
        if found is None:
            return
        added, modified, removed = found
        if added is not None:
            if self._added is None:
                self._added = {}
            self._added[path_element] = added
            self.new += is_member(added)
        if modified is not None:
            if self._modified is None:
                self._modified = {}
            self._modified[path_element] = modified
        if removed is not None:
            if self._removed is None:
                self._removed = {}
            self._removed[path_element] = removed

    def sets(self) -> _Sets | None:
        if self._added is None and self._modified is None and self._removed is None:
            return None
        return self._added, self._modified, self._removed


def merge(kind: MergeType, live: Any, applied: Any) -> Any:
    """The live value with the applied one laid over it: `live` itself where that is nothing new. Neither is changed; parts are shared.

    Raises:
        DuplicateKeyError: an applied list has items with the same keys.
    """
    leaf = kind.atomic or (kind.kind == "list" and not kind.list_type)
    shape = _shape(kind, applied)
    if leaf or shape == "scalar":
        if applied is None and live and not leaf and _shape(kind, live) != "scalar":
            return live  # a null is an empty map or list
        return live if identical(live, applied) else applied
    if _shape(kind, live) != shape or not live:
        if not applied:
            return applied if live != applied else live
        live = {} if shape == "map" else []
    return _merge_maps(kind, live, applied) if shape == "map" else _merge_lists(kind, live, applied)


def _merge_maps(kind: MergeType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] | None = None
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in applied.items():
        before = live.get(name, _ABSENT)
        if type(child) is str and before == child:
            continue
        merged = merge(named.get(name, other), before, child)
        if merged is before:
            continue
        if result is None:
            result = dict(live)
        result[name] = merged
    return live if result is None else result


def _merge_lists(kind: MergeType, live: list[Any], applied: list[Any]) -> list[Any]:
    """Applied items keep their order; live ones keep theirs among them (`mergingWalker.visitListItems`)."""
    theirs = _index(kind, applied)
    for path_element, items in theirs.items():
        if len(items) > 1:
            raise DuplicateKeyError(f"duplicate entries for key {_key_text(path_element)}")
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
    return live if len(result) == len(live) and all(map(operator.is_, result, live)) else result


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
