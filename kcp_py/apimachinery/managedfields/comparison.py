"""`compare`: which fields of a typed value were added, modified and removed.

Source: structured-merge-diff `typed/compare.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kcp_py.apimachinery.equality import equal, identical
from kcp_py.apimachinery.managedfields.fieldsets import OWN, FieldSet, in_order, is_member, union
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType
from kcp_py.apimachinery.managedfields.values import ABSENT, CONTAINERS, MAP_KINDS, items_by_element, shape_of

__all__ = ["EQUALITY_DEPTH", "Comparison", "compare", "new_fields"]


@dataclass(slots=True)
class Comparison:
    """How one value became another."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.added and not self.modified and not self.removed

    def taken(self) -> FieldSet:
        """The fields that have values which they did not have before."""
        return union(self.modified, self.added)


def compare(kind: MergeType, old: Any, new: Any) -> Comparison:
    """How `old` became `new`, field by field."""
    added, modified, removed = _compare(kind, old, new, 0) or _NOTHING
    return Comparison(added or {}, modified or {}, removed or {})


def new_fields(kind: MergeType, value: dict[str, Any]) -> FieldSet:
    """The fields that creating an object adds, in the order of `fieldsets.ordered`. An update adds them if there was no object before."""
    fields = _all_fields(kind, value)
    fields.pop(OWN, None)
    return fields


_Sets = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
"""Additions, modifications and removals at a place and below; None for nothing, empty for the place as a whole."""

_NOTHING: Final[_Sets] = (None, None, None)
_MODIFIED: Final[_Sets] = (None, {}, None)
EQUALITY_DEPTH: Final = 3
"""Maps and lists down to this level are first compared as wholes. Doing so at each level would be quadratic in the depth."""


def _compare(kind: MergeType, old: Any, new: Any, depth: int) -> _Sets | None:
    """How one place changed; None for a place without changes. `ABSENT` stands for a missing value."""
    leaf = kind.atomic or (kind.kind == "list" and not kind.list_type)
    if old is ABSENT:
        return _all_fields(kind, new), None, None
    if new is ABSENT:
        return None, None, _all_fields(kind, old)
    shape, old_shape = shape_of(kind, new), shape_of(kind, old)
    if not leaf:
        # A null counts as an empty map or list where the other side is one that is not empty.
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
    return _below(_all_fields(kind, new)), {}, _below(_all_fields(kind, old))


def _below(node: FieldSet) -> FieldSet | None:
    """The fields below a place, without the place itself."""
    return {element: below for element, below in node.items() if element != OWN} or None


def _all_fields(kind: MergeType, value: Any) -> FieldSet:
    """A place that exists on one side only, and all places below it, in order."""
    if kind.atomic or not value:
        return {}
    result: FieldSet = {OWN: {}}
    if type(value) is dict and kind.kind in MAP_KINDS:
        named = kind.fields
        other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
        for name in sorted(value):
            child = value[name]
            result[f"f:{name}"] = _all_fields(named.get(name, other), child) if child and type(child) in CONTAINERS else {}
        return result
    if type(value) is list and kind.list_type:
        element = kind.element or SCALAR
        found = items_by_element(kind, value)
        for path_element in in_order(found):
            items = found[path_element]
            result[path_element] = _all_fields(element, items[0]) if len(items) == 1 else {}
        return result
    return {}


def _compare_maps(kind: MergeType, old: dict[str, Any], new: dict[str, Any], depth: int) -> _Sets | None:
    gathered: _Gathered | None = None
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in new.items():
        before = old.get(name, ABSENT)
        if before is child:
            continue
        found: _Sets | None = _MODIFIED
        if type(before) is type(child):
            if type(child) in CONTAINERS:
                if depth < EQUALITY_DEPTH and identical(before, child):
                    continue
                below = named.get(name, other)
                if child and before and below.kind in MAP_KINDS and not below.atomic and type(child) is dict:
                    found = _compare_maps(below, before, child, depth + 1)
                else:
                    found = _compare(below, before, child, depth)
            elif before == child:
                continue
        else:
            found = _compare(named.get(name, other), before, child, depth)
        if found is not None:
            if gathered is None:
                gathered = _Gathered()
            gathered.add(f"f:{name}", found)
    if len(old) + (0 if gathered is None else gathered.new) != len(new):
        if gathered is None:
            gathered = _Gathered()
        for name, child in old.items():
            if name not in new:
                gathered.add(f"f:{name}", (None, None, _all_fields(named.get(name, other), child)))
    return None if gathered is None else gathered.sets()


def _compare_lists(kind: MergeType, old: list[Any], new: list[Any], depth: int) -> _Sets | None:
    gathered = _Gathered()
    before, after = items_by_element(kind, old), items_by_element(kind, new)
    element = kind.element or SCALAR
    for path_element in before | after:
        one, other = before.get(path_element, []), after.get(path_element, [])
        if len(one) <= 1 and len(other) <= 1:
            gathered.add(path_element, _compare(element, one[0] if one else ABSENT, other[0] if other else ABSENT, depth))
        elif len(one) > 1 and len(other) > 1:
            gathered.add(path_element, None if equal(one, other) else (None, {}, None))
        else:
            # Items with the same path element are owned together.
            gathered.add(path_element, (_items(element, other), None, _items(element, one)))
    return gathered.sets()


def _items(kind: MergeType, items: list[Any]) -> FieldSet | None:
    """The fields that are added or removed with the items that share a path element."""
    if not items:
        return None
    return _all_fields(kind, items[0]) if len(items) == 1 else {}


class _Gathered:
    """The differences found below a place, by path element."""

    __slots__ = ("_added", "_modified", "_removed", "new")

    def __init__(self) -> None:
        self._added: FieldSet | None = None
        self._modified: FieldSet | None = None
        self._removed: FieldSet | None = None
        self.new = 0
        """How many places exist on the new side only."""

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
