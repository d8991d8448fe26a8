"""Decoded values as Go's `fmt` prints them in upstream's messages: `%T`, `%v` and `%#v`, and what its decoder calls their types."""

from __future__ import annotations

from typing import Any

from kcp_py.golang.floats import format_float
from kcp_py.golang.quoting import go_quote


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


def json_type(value: Any) -> str:
    """What Go's JSON decoder calls a value that is of another type than it looks for: `json: cannot unmarshal bool into Go value of …`."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def go_text(value: Any) -> str:
    """A JSON value as Go's `%v` and `%+v` print what its decoder made of it: `map[a:1 b:[x y] c:<nil>]`, keys sorted."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return format_float(value)
        case dict():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case _:
            return str(value)


def go_syntax(value: Any) -> str:
    """A JSON value as Go's `%#v` prints what its decoder made of it: `map[string]interface {}{"a":[]interface {}{1, "b"}}`."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return go_quote(value)
        case dict():
            members = ", ".join(f"{go_quote(key)}:{go_syntax(value[key])}" for key in sorted(value))
            return f"{go_type(value)}{{{members}}}"
        case list():
            return f"{go_type(value)}{{{', '.join(map(go_syntax, value))}}}"
        case _:
            return go_text(value)
