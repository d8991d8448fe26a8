"""Which part of the old object stands for a part of the new one.

Fields correlate by name, map entries by key, elements of lists of type `map` by their keys; elements of other lists do not.
Source: apiserver `pkg/cel/common/maplist.go` and apiextensions `pkg/apiserver/schema/cel/maplist.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

__all__ = ["ABSENT", "correlate_items"]

ABSENT: Final[Any] = object()
"""Stands for the absence of an old value: null is one."""


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
        # Of elements with the same keys, which a set never has, the first counts.
        identity = _identity(item, keys)
        if identity is not None:
            known.setdefault(identity, item)

    def find(item: object) -> Any:
        identity = _identity(item, keys)
        return ABSENT if identity is None else known.get(identity, ABSENT)

    return find


def _identity(item: object, keys: tuple[str, ...]) -> bytes | None:
    """The values of an element's keys; None: it is no object."""
    if not isinstance(item, dict):
        return None
    return orjson.dumps([item.get(key) for key in keys])
