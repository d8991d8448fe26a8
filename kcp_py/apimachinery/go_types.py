"""Names of Go's types for decoded values, as upstream's messages print them with `%T`."""

from __future__ import annotations

from typing import Any


def go_type(value: Any) -> str:
    """The type that Go's decoder gives a JSON value."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"
