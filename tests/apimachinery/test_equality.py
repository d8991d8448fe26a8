"""Equality of JSON values."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.equality import equal, identical

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=2)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=3))


@pytest.mark.parametrize(
    ("one", "other", "are_equal", "are_identical"),
    [
        (1, 1, True, True),
        (1, 1.0, True, False),
        (1, True, False, False),
        (0, False, False, False),
        (None, False, False, False),
        ("1", 1, False, False),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True, True),
        ({"a": [1, {"b": 2, "c": 3}]}, {"a": [1, {"c": 3, "b": 2}]}, True, True),
        ({"a": 1}, {"a": 1.0}, True, False),
        ({"a": 1}, {"a": True}, False, False),
        ({"a": [True]}, {"a": [1]}, False, False),
        ([1, 2], [2, 1], False, False),
        ([], {}, False, False),
        ({"a": None}, {}, False, False),
    ],
)
def test_numbers_and_booleans(one: Any, other: Any, are_equal: bool, are_identical: bool) -> None:  # noqa: FBT001  # a case
    """Numbers are equal by value and identical by type; a boolean is not a number, on any level."""
    assert equal(one, other) is equal(other, one) is are_equal
    assert identical(one, other) is identical(other, one) is are_identical


@given(VALUES, VALUES)
def test_identical_values_have_one_text(one: Any, other: Any) -> None:
    """Identical values are equal, and containers are identical where their sorted JSON is; a copy is always identical."""
    assert identical(one, copy.deepcopy(one))
    if identical(one, other):
        assert equal(one, other)
    if isinstance(one, dict | list):
        assert identical(one, other) is (orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS))
