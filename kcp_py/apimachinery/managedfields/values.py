"""Typed values: their shape, the path elements of list items, and the fields that a value has.

Source: structured-merge-diff `typed/tofieldset.go`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, key_element, member, value_element
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType

__all__ = ["ABSENT", "CONTAINERS", "MAP_KINDS", "fields_of", "item_element", "items_by_element", "shape_of"]

ABSENT: Final[Any] = object()
"""Stands for a value that is not there."""
_MAX_KNOWN_KEY: Final = 63
CONTAINERS: Final = frozenset((dict, list))
"""The types of values that may have parts. All others are scalars, of whatever type they have to be."""
MAP_KINDS: Final = frozenset(("map", "deduced"))
"""Kinds of types whose values can be maps."""


def shape_of(kind: MergeType, value: Any) -> str:
    """How a type treats a value: as a `map`, as a `list`, or as a `scalar`, which has no parts."""
    found = type(value)
    if found is dict:
        return "map" if kind.kind in MAP_KINDS else "scalar"
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
    """The path element of an item with one short key. Cached, since an apply needs each of them several times."""
    return key_element({name: value})


def items_by_element(kind: MergeType, items: list[Any]) -> dict[str, list[Any]]:
    """The items of a list by path element, in order."""
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        found.setdefault(item_element(kind, item, index), []).append(item)
    return found


def fields_of(kind: MergeType, value: Any) -> FieldSet:
    """All fields of a value, which its writer owns."""
    return _fields(kind, value) or {}


def _fields(kind: MergeType, value: Any) -> FieldSet | None:
    """The fields that are owned at a place and below: None for no field, empty for the place as a whole."""
    match shape_of(kind, value):
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
        if type(child) in CONTAINERS:
            part = other if found is None else found
            below = _map_fields(part, child) if type(child) is dict and part.kind in MAP_KINDS else _fields(part, child)
        elif child is None:
            below = None
        else:
            below = {}
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
    for path_element, items in items_by_element(kind, value).items():
        # Items with the same path element are owned together.
        result[path_element] = member(_fields(element, items[0])) if len(items) == 1 else {}
    return result or None
