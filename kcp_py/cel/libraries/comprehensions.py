"""Macros over lists and maps with two variables (cel-go `ext/comprehensions.go`)."""

from __future__ import annotations

from typing import Final

from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.macros import TWO_VARIABLES
from kcp_py.cel.runtime import insert, insert_entries
from kcp_py.cel.types import map_of, type_parameter

__all__ = ["COMPREHENSIONS"]

_K: Final = type_parameter("K")
_V: Final = type_parameter("V")
_MAP: Final = map_of(_K, _V)


def _with_entry(entries: dict[object, object], key: object, value: object) -> dict[object, object]:
    """A map with one entry more."""
    result = dict(entries)
    insert(result, key, value)
    return result


def _with_entries(entries: dict[object, object], more: object) -> dict[object, object]:
    """A map with all entries of another one more."""
    result = dict(entries)
    insert_entries(result, more)
    return result


COMPREHENSIONS: Final = Library(
    "cel.lib.ext.comprehensions",
    functions=(
        Function(
            "cel.@mapInsert",
            (
                Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, implementation=_with_entry),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, implementation=_with_entries),
            ),
        ),
    ),
    macros=TWO_VARIABLES,
)
