"""What an apply refuses before anything is merged."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.conformity import MAX_PROBLEMS, typed_problems
from kcp_py.schema.merge_types import merge_type

KIND = merge_type(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
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
OMITS = 'associative list with keys has an element that omits key field "k" (and doesn\'t have default value)'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "x", "free": {"a": {"b": 1}}, "labels": {"x": {"a": "b"}}, "set": ["a"], "map": [{"k": "a"}], "atomic": [{}]}, []),
        ({"name": None, "set": None, "map": None, "labels": None}, []),
        ({"other": 1}, [".other: field not declared in schema"]),
        ({"labels": {"x": {"b": "c"}}}, [".labels.x.b: field not declared in schema"]),
        ({"labels": []}, [".labels: expected map, got list"]),
        ({"set": {}}, [".set: expected list, got map"]),
        ({"set": True}, [".set: expected list, got &{true}"]),
        ({"set": ["a", "b", "a"]}, ['.set: duplicate entries for key [="a"]']),
        ({"map": [{"k": "a"}, {"k": "a"}]}, ['.map: duplicate entries for key [k="a"]']),
        ({"map": [{"v": "a"}, "x"]}, [f".map: element 0: {OMITS}", f".map: element 1: {OMITS}"]),
        ({"map": [{"k": "a", "w": 1}]}, ['.map[k="a"].w: field not declared in schema']),
        ({"atomic": [{}, {"b": 1}]}, [".atomic[1].b: field not declared in schema"]),
    ],
)
def test_problems(value: Any, expected: list[str]):
    """Unknown fields, other shapes, and items that cannot be told apart, in upstream's words."""
    assert typed_problems(KIND, value) == expected


def test_many_problems():
    """The message stays short."""
    assert len(typed_problems(KIND, {f"f{number}": 1 for number in range(1000)})) == MAX_PROBLEMS
