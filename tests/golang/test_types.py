"""Go's names of the types of decoded values."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.golang.types import go_syntax, go_text, go_type, json_type


@pytest.mark.parametrize(
    ("value", "name", "decoded"),
    [
        (None, "<nil>", "null"),
        (True, "bool", "bool"),
        (1, "int64", "number"),
        (1.5, "float64", "number"),
        ("a", "string", "string"),
        ([1], "[]interface {}", "array"),
        ({"a": 1}, "map[string]interface {}", "object"),
    ],
)
def test_names(value: Any, name: str, decoded: str) -> None:
    """A bool is not a number, unlike in Python."""
    assert (go_type(value), json_type(value)) == (name, decoded)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "<nil>"),
        ({"b": [1, "x y", None], "a": {"c": True}, "d": {}}, "map[a:map[c:true] b:[1 x y <nil>] d:map[]]"),
        (1.5, "1.5"),
        (100.0, "100"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
    ],
)
def test_texts(value: Any, text: str) -> None:
    """Maps have their keys sorted, and doubles have the shortest digits."""
    assert go_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a"b', '"a\\"b"'),
        (1, "1"),
        ({"b": None, "a": [True, 1.5]}, 'map[string]interface {}{"a":[]interface {}{true, 1.5}, "b":interface {}(nil)}'),
    ],
)
def test_syntax(value: Any, text: str) -> None:
    """Containers have their types, texts are quoted."""
    assert go_syntax(value) == text
