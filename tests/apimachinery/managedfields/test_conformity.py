"""What an apply refuses before anything is merged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.managedfields.conformity import MAX_PROBLEMS, _fits, _problems, typed_problems
from tests.schema.reading import merge_type

KIND = merge_type(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer"},
            "on": {"type": "boolean"},
            "when": {"type": "string", "format": "date-time"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "labels": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "atomic": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}}},
            },
        },
    }
)
OMITS = 'associative list with keys has an element that omits all key fields ["k"] (and doesn\'t have default values for any key fields)'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "x", "free": {"a": {"b": 1}}, "labels": {"x": {"a": "b"}}, "set": ["a"], "map": [{"k": "a"}], "atomic": [{}]}, []),
        ({"name": None, "set": None, "map": None, "labels": None}, []),
        ({"other": 1}, [".other: field not declared in schema"]),
        ({"labels": {"x": {"b": "c"}}}, [".labels.x.b: field not declared in schema"]),
        ({"labels": []}, [".labels: expected map, got &{[]}"]),
        ({"set": {}}, [".set: expected list, got &{map[]}"]),
        ({"set": True}, [".set: expected list, got &{true}"]),
        ({"set": ["a", "b", "a"]}, ['.set: duplicate entries for key [="a"]']),
        ({"map": [{"k": "a"}, {"k": "a"}]}, ['.map: duplicate entries for key [k="a"]']),
        ({"map": [{"v": "a"}, "x"]}, [f".map: element 0: {OMITS}"]),
        ({"map": [{"k": "a"}, "x"]}, [".map: element 1: associative list with keys may not have non-map elements"]),
        ({"map": [None]}, [".map: element 0: associative list with keys may not have a null element"]),
        ({"set": [{}]}, [".set: element 0: associative list without keys has an element that's a map type"]),
        ({"set": [[]]}, [".set: element 0: not supported: associative list with lists as elements"]),
        ({"set": [None]}, [".set: element 0: associative list without keys has an element that's an explicit null"]),
        ({"name": "x", "size": 1.5, "on": False, "when": 5}, []),
        ({"name": 1}, [".name: expected string, got &value.valueUnstructured{Value:1}"]),
        (
            {"name": {"a": []}},
            ['.name: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}{}}}'],
        ),
        ({"size": "1"}, [".size: expected numeric (int or float), got string"]),
        ({"size": True}, [".size: expected numeric (int or float), got bool"]),
        ({"on": "true"}, [".on: expected boolean, got &{true}"]),
        ({"when": {"a": 1}}, [".when: expected any scalar, got &{map[a:1]}"]),
        ({"map": [{"k": "a", "w": 1}]}, ['.map[k="a"].w: field not declared in schema']),
        ({"atomic": [{}, {"b": 1}]}, [".atomic[1].b: field not declared in schema"]),
    ],
)
def test_problems(value: Any, expected: list[str]):
    """Unknown fields, other shapes and types, and items that cannot be distinguished, in upstream's words."""
    assert typed_problems(KIND, value) == expected


def test_many_problems():
    """The message stays short."""
    assert len(typed_problems(KIND, {f"f{number}": 1 for number in range(1000)})) == MAX_PROBLEMS


_SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b", ""]) | st.floats(0, 1)
_NAMES = st.sampled_from([*KIND.fields, "a", "k", "v", "other"])


@given(st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=12))
def test_what_fits_has_no_problems(value: Any) -> None:
    """The fast answer for configurations that fit is that of the search for problems."""
    for kind, part in ((KIND, value), *((child, value) for child in KIND.fields.values())):
        assert _fits(kind, part) is (next(_problems(kind, part, ""), None) is None)
