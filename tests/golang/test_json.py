"""JSON as Go's `encoding/json` writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.golang.json import go_json

WRITTEN = {
    "a whole double": (2.0, "2"),
    "a large whole double": (1e20, "100000000000000000000"),
    "an exponent from 1e21": (1e21, "1e+21"),
    "a small double": (0.000001, "0.000001"),
    "an exponent below 1e-6": (0.0000001, "1e-7"),
    "zero": (0.0, "0"),
    "negative": (-1.5, "-1.5"),
    "characters of HTML": ("<a & b>", r'"\u003ca \u0026 b\u003e"'),
    "separators of JavaScript": ("\u2028\u2029", r'"\u2028\u2029"'),
    "other characters": ("ä\n", '"ä\\n"'),
    "a list with a double": ([1, 2.5, None, True], "[1,2.5,null,true]"),
    "HTML beside a double": ({"<": 1.0}, r'{"\u003c":1}'),
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), children, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("value", "text"), WRITTEN.values(), ids=WRITTEN)
def test_values_look_as_in_go(value: Any, text: str) -> None:
    """Doubles have the fewest digits, and what HTML would understand is escaped."""
    assert go_json(value) == text


def test_maps_are_sorted_and_structs_are_not() -> None:
    """On every level, with doubles and without."""
    for value in (1, 1.5):
        assert go_json({"b": {"d": value, "c": 2}, "a": 3}, sort=True) == f'{{"a":3,"b":{{"c":2,"d":{value}}}}}'
        assert go_json({"b": {"d": value, "c": 2}, "a": 3}) == f'{{"b":{{"d":{value},"c":2}},"a":3}}'


@given(VALUES)
def test_what_is_written_reads_back(value: Any) -> None:
    """Whatever the value, it is JSON of the same value; whole doubles look like integers."""
    assert json.loads(go_json(value), parse_int=float) == value
