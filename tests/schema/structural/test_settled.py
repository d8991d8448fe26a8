"""Objects that need neither pruning nor defaults and are valid: the one pass says so only where the three passes do."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.schema.structural.settled import MAX_NODES
from tests.schema.test_properties import EXTENDED, NAMES, SCHEMAS, VALUES

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["image"],
    "properties": {
        "image": {"type": "string", "pattern": "^[a-z:/]+$"},
        "mode": {"type": "string", "default": "safe", "enum": ["safe", "fast"]},
        "replicas": {"type": "integer", "minimum": 0},
        "ratio": {"type": "number"},
        "size": {"x-kubernetes-int-or-string": True},
        "ports": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}},
        },
        "tags": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
    },
}
ROOT: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}},
        "spec": SPEC,
        "status": {"type": "object", "properties": {"phase": {"type": "string", "maxLength": 3}}},
    },
}


def _settled(schema: StructuralSchema, obj: dict[str, Any]) -> dict[str, Any] | None:
    """The parts that a settler finds of an object. The three passes confirm them, and nothing is changed."""
    assert schema.settler is not None
    before = orjson.dumps(obj)
    parts = schema.settler.settled(obj)
    assert orjson.dumps(obj) == before
    if parts is None:
        return None
    passed = copy.deepcopy(obj)
    assert schema.prune(passed) == []
    schema.default(passed)
    assert orjson.dumps(passed) == before
    alone = {name: value for name, value in obj.items() if name in parts}
    assert alone == parts
    return parts


def _object(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"image": "a", "mode": "safe", **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"mode": "fast", "replicas": 3, "ratio": 0.5, "size": "1", "tags": {"a": "b"}, "ports": [{"port": 1}, {"port": 2, "name": "a"}]},
        {"ratio": 1, "size": 1, "ports": [], "tags": {}},
    ],
)
def test_usual_objects_are_settled(spec: dict[str, Any]) -> None:
    """An object with all defaults and no unknown field is settled and valid."""
    schema = compile_schema(ROOT)
    obj = _object(**spec)
    parts = _settled(schema, obj)
    assert parts == {"spec": obj["spec"]}
    assert schema.settler is not None
    assert schema.settler.is_valid(obj, parts)
    assert schema.validate(obj) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"unknown": 1},
        {"image": "A"},
        {"image": 1},
        {"mode": "other"},
        {"mode": None},
        {"maybe": None},
        {"replicas": -1},
        {"replicas": True},
        {"replicas": 1.5},
        {"size": {}},
        {"size": True},
        {"ports": [{"port": 1}, {"port": 1}]},
        {"ports": [{"port": 1}, {"port": 2}, {"port": 3}]},
        {"ports": [{"port": 1, "unknown": 1}]},
        {"ports": [{"name": "a"}]},
        {"ports": [None]},
        {"ports": {}},
        {"tags": {"a": 1}},
        {"tags": {"a": "", "b": "", "c": ""}},
        {"tags": {"a": None}},
        {"tags": []},
        {"free": {"a": 1}},
    ],
)
def test_everything_else_is_left_to_the_three_passes(spec: dict[str, Any]) -> None:
    """Invalid, pruned and filled values are not settled, and neither are maps that preserve fields."""
    assert _settled(compile_schema(ROOT), _object(**spec)) is None


def test_missing_defaults_are_not_settled() -> None:
    """A field with a default has to be there, in the root as below it."""
    schema = compile_schema({"type": "object", "properties": {"spec": SPEC, "flag": {"type": "boolean", "default": True}}})
    complete = _object() | {"flag": False}
    assert _settled(schema, complete) is not None
    assert _settled(schema, {name: value for name, value in complete.items() if name != "flag"}) is None
    assert _settled(schema, complete | {"spec": {"image": "a"}}) is None


def test_unknown_and_null_fields_of_the_root_are_not_settled() -> None:
    """The root obeys the same rules, but for its apiVersion, kind and metadata."""
    schema = compile_schema(ROOT)
    assert _settled(schema, _object() | {"other": {}}) is None
    assert _settled(schema, _object() | {"status": None}) is None


def test_parts_that_were_replaced_are_checked() -> None:
    """Only the very parts that were found valid are passed over: metadata, a status of another object and an equal spec are not."""
    schema = compile_schema(ROOT)
    obj = _object() | {"status": {"phase": "a"}}
    parts = _settled(schema, obj)
    assert parts is not None
    settler = schema.settler
    assert settler is not None
    assert settler.is_valid(obj, parts)
    for other in (
        obj | {"status": {"phase": "long"}},
        obj | {"status": None},
        obj | {"metadata": {"name": "too-long"}},
        obj | {"metadata": None},
        obj | {"spec": {"image": "A"}},
        {name: value for name, value in obj.items() if name != "spec"},
    ):
        assert not settler.is_valid(other, parts)
    assert settler.is_valid(obj | {"status": {"phase": "b"}}, parts)
    assert settler.is_valid(obj | {"spec": copy.deepcopy(obj["spec"])}, parts)


def test_replaced_parts_are_checked_where_nothing_else_is() -> None:
    """Also if the schema says nothing about metadata."""
    schema = compile_schema({"type": "object", "properties": {"spec": SPEC}})
    obj = _object()
    parts = _settled(schema, obj)
    assert parts is not None
    assert schema.settler is not None
    assert schema.settler.is_valid(obj | {"metadata": {"name": "other"}}, parts)
    assert not schema.settler.is_valid(obj | {"spec": {"image": "A"}}, parts)


def test_the_number_of_fields_of_the_root_is_checked_at_the_end() -> None:
    """The status of the stored object may make them too many."""
    schema = compile_schema(ROOT | {"maxProperties": 4})
    obj = _object()
    parts = _settled(schema, obj)
    assert parts is not None
    assert schema.settler is not None
    assert schema.settler.is_valid(obj, parts)
    assert not schema.settler.is_valid(obj | {"status": {}}, parts)


def test_searches_that_are_counted_are_left_to_validation() -> None:
    """An object has one allowance for all searches, so that none of it is used up before."""
    schema = compile_schema({"type": "object", "properties": {"spec": {"type": "string", "pattern": "(a|b){0,200}$"}}})
    assert _settled(schema, {"spec": "ab"}) == {"spec": "ab"}
    assert _settled(schema, {"spec": "ab" * 10_000}) is None
    assert schema.validate({"spec": "ab" * 10_000}) == []
    assert _settled(schema, {"spec": "ab"}) == {"spec": "ab"}


@pytest.mark.parametrize(
    "root",
    [
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "properties": {"spec": SPEC}, "anyOf": [{"required": ["spec"]}]},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"properties": {"spec": SPEC}},
        {"type": "object", "properties": {f"f{number}": {"type": "integer", "minimum": number} for number in range(MAX_NODES)}},
    ],
)
def test_unusual_roots_have_no_settler(root: dict[str, Any]) -> None:
    """Objects of such schemas undergo the three passes, and so do those of large schemas, whose closures would take long to compile."""
    assert compile_schema(root).settler is None


@settings(max_examples=500, deadline=None)
@given(
    st.dictionaries(NAMES, EXTENDED | SCHEMAS | st.just(SPEC), max_size=3), st.dictionaries(NAMES, VALUES, max_size=3), VALUES, st.data()
)
def test_settled_objects_pass_the_three_passes(properties: Any, value: Any, status: Any, data: st.DataObject) -> None:
    """For any schema and any value: a settled object is neither pruned nor filled in, and the verdict is that of validation."""
    spec = {"type": "object", "properties": properties}
    document = {"type": "object", "properties": {"spec": spec, "status": data.draw(SCHEMAS)}}
    schema = compile_schema(document)
    obj = {"spec": value}
    # Most values are settled when they have undergone pruning and defaults.
    if data.draw(st.booleans()):
        schema.prune(obj)
        schema.default(obj)
    parts = _settled(schema, obj)
    event(f"settled: {parts is not None}")
    if parts is None:
        return
    assert schema.is_valid(obj)
    assert schema.settler is not None
    for other in (obj, obj | {"status": status}):
        if schema.settler.is_valid(other, parts):
            assert schema.validate(other) == []
            assert schema.is_valid(other)
        else:
            assert other is not obj
            assert status is None or not schema.is_valid(other)
