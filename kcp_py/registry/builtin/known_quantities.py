"""Quantities in objects of known kinds, written as Go writes what it has read: `1000m` is `1`, and a number becomes a text.

Source: apimachinery `pkg/api/resource` (`Quantity.UnmarshalJSON`, `MarshalJSON`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kcp_py.apimachinery.quantity import canonical
from kcp_py.bootstrap.known_schemas import QUANTITY
from kcp_py.schema.nodes import Node

BAD_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

Rewrite = Callable[[Any], Any]
"""Rewrites the quantities within a value in place, and returns what stands for the value. Raises ValueError: one is malformed."""


def quantities_of(node: Node) -> Rewrite | None:
    """What rewrites the values of a schema; None where they hold no quantity."""
    return _rewrite(node, {})


def _rewrite(node: Node, known: dict[int, Rewrite | None]) -> Rewrite | None:
    # Equal nodes are one node, and schemas without references are trees.
    if id(node) not in known:
        known[id(node)] = _made(node, known)
    return known[id(node)]


def _made(node: Node, known: dict[int, Rewrite | None]) -> Rewrite | None:
    if node.format == QUANTITY:
        return _canonical
    if node.items is not None:
        element = _rewrite(node.items, known)
        return None if element is None else _of_list(element)
    if isinstance(node.additional, Node):
        value = _rewrite(node.additional, known)
        return None if value is None else _of_map(value)
    fields = {name: rewrite for name, child in node.properties.items() if (rewrite := _rewrite(child, known)) is not None}
    return _of_object(fields) if fields else None


def _canonical(value: Any) -> Any:
    if value is None or isinstance(value, bool | list | dict):
        return value
    return canonical(value) if value != "" else "0"


def _of_list(element: Rewrite) -> Rewrite:
    def rewrite(value: Any) -> Any:
        if type(value) is list:
            for member in value:
                element(member)
        return value

    return rewrite


def _of_map(rewrite_value: Rewrite) -> Rewrite:
    def rewrite(value: Any) -> Any:
        if type(value) is dict:
            for name, member in value.items():
                value[name] = rewrite_value(member)
        return value

    return rewrite


def _of_object(fields: dict[str, Rewrite]) -> Rewrite:
    def rewrite(value: Any) -> Any:
        if type(value) is dict:
            for name in value.keys() & fields.keys():
                value[name] = fields[name](value[name])
        return value

    return rewrite
