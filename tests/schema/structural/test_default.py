"""Nulls and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.compilation import compile_schema

STRING = {"type": "string"}

CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "missing": ({"type": "object", "properties": {"x": {**STRING, "default": "d"}}}, {}, {"x": "d"}),
    "present": ({"type": "object", "properties": {"x": {**STRING, "default": "d"}}}, {"x": ""}, {"x": ""}),
    "null with a default": ({"type": "object", "properties": {"x": {**STRING, "default": "d"}}}, {"x": None}, {"x": "d"}),
    "null without a default": ({"type": "object", "properties": {"x": STRING}}, {"x": None}, {}),
    "nullable": ({"type": "object", "properties": {"x": {**STRING, "nullable": True, "default": "d"}}}, {"x": None}, {"x": None}),
    "unknown null": ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"x": None}, {"x": None}),
    "zero values": (
        {
            "type": "object",
            "properties": {"b": {"type": "boolean", "default": False}, "l": {"type": "array", "items": STRING, "default": []}},
        },
        {},
        {"b": False, "l": []},
    ),
    "parent before child": (
        {"type": "object", "properties": {"p": {"type": "object", "default": {}, "properties": {"x": {**STRING, "default": "d"}}}}},
        {},
        {"p": {"x": "d"}},
    ),
    "no parent": ({"type": "object", "properties": {"p": {"type": "object", "properties": {"x": {**STRING, "default": "d"}}}}}, {}, {}),
    "map value": ({"type": "object", "additionalProperties": {**STRING, "default": "d"}}, {"k": None, "l": ""}, {"k": "d", "l": ""}),
    "map value without a default": ({"type": "object", "additionalProperties": STRING}, {"k": None}, {}),
    "list item": ({"type": "array", "items": {**STRING, "default": "d"}}, [None, ""], ["d", ""]),
    "list item without a default": ({"type": "array", "items": STRING}, [None], [None]),
    "objects in a list": (
        {"type": "array", "items": {"type": "object", "properties": {"x": {**STRING, "default": "d"}}}},
        [{}, {"x": None}],
        [{"x": "d"}, {"x": "d"}],
    ),
    "metadata in a default": (
        {
            "type": "object",
            "properties": {
                "e": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                    "default": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "unknown": 1}},
                }
            },
        },
        {},
        {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nulls_are_dropped_and_defaults_filled(case):
    """Null is dropped where it is not allowed, defaults fill missing values, parents first."""
    schema, value, expected = CASES[case]
    obj = {"a": value}
    compile_schema({"type": "object", "properties": {"a": schema}}).default(obj)
    assert obj == {"a": expected}


def test_metadata_of_the_root_is_left_alone():
    """Defaults and nulls in metadata are not the schema's business."""
    obj = {"metadata": {"name": None}}
    compile_schema({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": STRING}}}}).default(obj)
    assert obj == {"metadata": {"name": None}}
