"""Values of an updated object paired with the old ones. Errors about parts that did not change may stay (ratcheting).

Fields correlate by name, map entries by key, elements of lists of type `map` by their keys, wherever they moved; elements of other lists do
not. What the schema does not know does not correlate either. Source: apiserver `pkg/cel/common/equality.go` (`CorrelatedObject`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from kcp_py.apimachinery.equality import equal
from kcp_py.schema.structural.nodes import Node

__all__ = ["ABSENT", "Correlated", "correlate_items"]

ABSENT: Final[Any] = object()
"""Stands for the absence of an old value: null is one."""


class Correlated:
    """A value with the old one that it stands for. Comparisons are made on demand, each once."""

    __slots__ = ("_children", "_find", "_unchanged", "node", "old", "top", "value")

    def __init__(self, node: Node, value: Any, old: Any, *, top: bool = False) -> None:
        """Pair two values.

        Args:
            node: their schema.
            value: the new one.
            old: the old one.
            top: of a whole object, whose apiVersion and kind are those of the request, not those of the stored object.
        """
        self.node = node
        self.value = value
        self.old = old
        self.top = top
        self._children: dict[str | int, Correlated | None] = {}
        self._find: Callable[[object], Any] | None = None
        self._unchanged: bool | None = None

    def key(self, name: str) -> Correlated | None:
        """A field or entry, where both values have it and the schema knows it."""
        if name not in self._children:
            self._children[name] = self._key(name)
        return self._children[name]

    def _key(self, name: str) -> Correlated | None:
        value, old = self.value, self.old
        if type(value) is not dict or type(old) is not dict or name not in value or name not in old:
            return None
        child = self.node.field(name)
        return None if child is None else Correlated(child, value[name], old[name])

    def index(self, position: int) -> Correlated | None:
        """An element, where the old list has one with the same keys."""
        if position not in self._children:
            self._children[position] = self._index(position)
        return self._children[position]

    def _index(self, position: int) -> Correlated | None:
        items = self.node.items
        if items is None or self.node.list_type != "map" or type(self.value) is not list or type(self.old) is not list:
            return None
        if self._find is None:
            self._find = correlate_items("map", self.node.list_map_keys, self.old)
        element = self.value[position]
        old = self._find(element)
        return None if old is ABSENT else Correlated(items, element, old)

    @property
    def unchanged(self) -> bool:
        """Whether both values are the same: lists of type `map` in any order."""
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if type(value) is list and type(old) is list:
            if len(value) != len(old):
                return False
            if self.node.list_type != "map":
                return equal(value, old)
            return all((child := self.index(position)) is not None and child.unchanged for position in range(len(value)))
        if type(value) is dict and type(old) is dict:
            return len(value) == len(old) and all((child := self.key(name)) is not None and child.unchanged for name in value)
        return equal(value, old)


def correlate_items(list_type: str, keys: tuple[str, ...], old: object) -> Callable[[object], Any]:
    """A function from an element of the new list to its counterpart in the old one, or to `ABSENT`.

    Args:
        list_type: `map`, else nothing correlates.
        keys: of the elements.
        old: the old list, or whatever is in its place.
    """
    if list_type != "map" or not isinstance(old, list):
        return lambda _: ABSENT
    known: dict[bytes, Any] = {}
    for item in old:
        # Of elements with the same keys, which a map never has, the first counts.
        identity = _identity(item, keys)
        if identity is not None:
            known.setdefault(identity, item)

    def find(item: object) -> Any:
        identity = _identity(item, keys)
        return ABSENT if identity is None else known.get(identity, ABSENT)

    return find


def _identity(item: object, keys: tuple[str, ...]) -> bytes | None:
    """The values of an element's keys; None: it is not an object."""
    if not isinstance(item, dict):
        return None
    return orjson.dumps([item.get(key) for key in keys])
