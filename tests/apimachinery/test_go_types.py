"""Go's names of the types of decoded values."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.go_types import go_type


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "<nil>"),
        (True, "bool"),
        (1, "int64"),
        (1.5, "float64"),
        ("a", "string"),
        ([1], "[]interface {}"),
        ({"a": 1}, "map[string]interface {}"),
    ],
)
def test_names(value: Any, name: str) -> None:
    """A bool is no number, whatever Python says."""
    assert go_type(value) == name
