"""`x-kubernetes-list-type`: the keys of lists that are maps, and the uniqueness of sets.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/listtype/validation.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, invalid
from kcp_py.schema.structural.nodes import Node

_OF_LIST_MAPS: Final = frozenset((dict, type(None)))
"""The types of the elements of lists that are maps."""


def is_unique(node: Node, items: list[Any]) -> bool:
    """Whether a list keeps the promise of its list type."""
    if node.list_type == "map":
        if not _OF_LIST_MAPS.issuperset(map(type, items)):
            return False
        if len(items) < 2:
            return True
        names = node.list_map_keys
        if len(names) == 1:
            name = names[0]
            return len({_identity(item, name) for item in items}) == len(items)
        return len({tuple([_identity(item, name) for name in names]) for item in items}) == len(items)
    if len(items) < 2:
        return True
    return len({_hashable(item) for item in items}) == len(items)


def list_errors(node: Node, items: list[Any], path: str) -> list[FieldError]:
    """The violations of one list: the second appearance of each repeated element, not the third."""
    if node.list_type == "set":
        return [duplicate(f"{path}[{index}]", items[index]) for index in _repeated([_hashable(item) for item in items])]
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [list_map_key(node.list_map_keys, item) for item in items]
    return [duplicate(f"{path}[{index}]", keys[index]) for index in _repeated([_hashable(key) for key in keys])]


def list_map_key(names: Sequence[str], item: Any) -> dict[str, Any]:
    """The part of a list element that identifies it."""
    return {} if item is None else {name: item[name] for name in names if name in item}


def _identity(item: Any, name: str) -> Any:
    return _hashable(item[name]) if item is not None and name in item else None


def _hashable(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value
    if kind is dict or kind is list:
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            # Nested deeper than the serializer goes: taken for unlike any other.
            return object()
    # Go compares with types: 1, 1.0 and true are three values.
    return (kind, value)


def _repeated(identities: list[Any]) -> list[int]:
    times: dict[Any, int] = {}
    repeated = []
    for index, identity in enumerate(identities):
        seen = times.get(identity, 0)
        times[identity] = seen + 1
        if seen == 1:
            repeated.append(index)
    return repeated
