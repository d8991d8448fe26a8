"""Dropping what a schema does not know."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.structural.prune import MAX_PATHS

STRING = {"type": "string"}
KNOWN = {"type": "object", "properties": {"known": STRING}}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}

CASES: dict[str, tuple[dict[str, Any], Any, Any, list[str]]] = {
    "unknown field": (KNOWN, {"known": "", "x": {"y": 1}}, {"known": ""}, ["a.x"]),
    "in a list": ({"type": "array", "items": KNOWN}, [{}, {"x": 1, "known": ""}], [{}, {"known": ""}], ["a[1].x"]),
    "in a map": ({"type": "object", "additionalProperties": KNOWN}, {"k": {"x": 1}}, {"k": {}}, ["a.k.x"]),
    "map of anything": ({"type": "object", "additionalProperties": True}, {"k": 1, "l": {"x": 1}}, {"k": 1, "l": {}}, ["a.l.x"]),
    "preserved": ({"type": "object", **PRESERVE}, {"x": {"y": [1]}}, {"x": {"y": [1]}}, []),
    "specified below preserved": (
        {"type": "object", **PRESERVE, "properties": {"p": KNOWN}},
        {"x": {"y": 1}, "p": {"x": 1}},
        {"x": {"y": 1}, "p": {}},
        ["a.p.x"],
    ),
    "items of a preserving list": ({"type": "array", **PRESERVE, "items": KNOWN}, [{"x": 1}], [{"x": 1}], []),
    "object where a scalar should be": (STRING, {"x": 1}, {}, ["a.x"]),
    "embedded": (
        {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
        {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "x": 1}, "y": 1},
        {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "y": 1},
        ["a.metadata.x"],
    ),
    "embedded metadata that says nothing": (
        {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
        {"metadata": {"name": "n", "namespace": None, "labels": {}, "creationTimestamp": None, "deletionGracePeriodSeconds": 0}},
        {"metadata": {"name": "n", "deletionGracePeriodSeconds": 0}},
        [],
    ),
    "several": (
        {
            "type": "object",
            "properties": {"r": {"type": "object", "x-kubernetes-embedded-resource": True}, "z": KNOWN},
        },
        {"z": {"y": 1, "x": 1}, "r": {"metadata": {"a": 1}, "b": 1}},
        {"z": {}, "r": {"metadata": {}}},
        ["a.r.b", "a.z.x", "a.z.y", "a.r.metadata.a"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unknown_fields_are_dropped_and_named(case):
    """What goes, what stays, and upstream's name for what goes."""
    schema, value, kept, dropped = CASES[case]
    obj = {"a": value}
    assert compile_schema({"type": "object", "properties": {"a": schema}}).prune(obj) == dropped
    assert obj == {"a": kept}


def test_at_most_a_hundred_fields_are_named():
    """All are dropped, the first hundred are named."""
    obj = {"a": {str(index): 1 for index in range(1000)}}
    assert len(compile_schema({"type": "object", "properties": {"a": KNOWN}}).prune(obj)) == MAX_PATHS
    assert obj == {"a": {}}
