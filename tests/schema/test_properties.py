"""What holds for any schema and any value."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from kcp_py.schema.compilation import compile_schema

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.0]) | st.sampled_from(["", "a", "ab", "abc"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def _sized(**bounds: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.integers(0, 3) for name in bounds.values()})


STRINGS = st.builds(
    lambda size, rest: {"type": "string", **size, **rest},
    _sized(low="minLength", high="maxLength"),
    st.fixed_dictionaries({}, optional={"pattern": st.sampled_from(["^a", "b$", "c"]), "enum": st.just(["a", "ab"])}),
)
NUMBERS = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(["integer", "number"]),
    st.fixed_dictionaries({}, optional={"minimum": st.integers(-3, 3), "maximum": st.integers(-3, 3), "multipleOf": st.integers(1, 2)}),
)
LEAVES = STRINGS | NUMBERS | st.just({"type": "boolean"})


def _containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    objects = st.builds(
        lambda properties, required, size: {"type": "object", "properties": properties, "required": required, **size},
        st.dictionaries(NAMES, inner, max_size=3),
        st.lists(NAMES, unique=True, max_size=2),
        _sized(low="minProperties", high="maxProperties"),
    )
    maps = st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner)
    lists = st.builds(lambda item, size: {"type": "array", "items": item, **size}, inner, _sized(low="minItems", high="maxItems"))
    junctors = st.builds(
        lambda base, name, parts: {**base, name: parts},
        inner,
        st.sampled_from(["allOf", "anyOf", "oneOf"]),
        st.lists(inner, min_size=1, max_size=2),
    )
    negations = st.builds(lambda base, part: {**base, "not": part}, inner, inner)
    return objects | maps | lists | junctors | negations


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(LEAVES, _containers, max_leaves=5)


def _without_nulls(value: Any) -> Any:
    # Junctors are not asked about null, and nothing here is nullable: the two libraries differ by design.
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value if part is not None]
    return value


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, VALUES)
def test_validation_agrees_with_json_schema(schema, value):
    """For common keywords, the verdict is that of the jsonschema library, and errors are reported exactly for invalid values."""
    value = _without_nulls(value)
    if value is None:
        return
    compiled = compile_schema({"type": "object", "properties": {"spec": schema}})
    expected = jsonschema.Draft7Validator(schema).is_valid(value)
    assert compiled.is_valid({"spec": value}) == expected
    assert (compiled.validate({"spec": value}) == []) == expected


EXTENDED = st.builds(
    lambda schema, rest: {**schema, **rest},
    SCHEMAS,
    st.fixed_dictionaries(
        {},
        optional={
            "nullable": st.booleans(),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
            "default": VALUES,
            "format": st.sampled_from(["date-time", "int32", "made-up"]),
        },
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, EXTENDED, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_the_verdict_and_the_report_agree(properties, value):
    """The predicate that runs on every write says no exactly when the report finds something."""
    compiled = compile_schema({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
    assert compiled.is_valid({"spec": value}) == (compiled.validate({"spec": value}) == [])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_pruning_and_defaulting_are_idempotent(properties, value):
    """What has been pruned and defaulted once does not change again, and pruning names something exactly when it drops something."""
    compiled = compile_schema({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
    obj = {"spec": value}
    before = copy.deepcopy(obj)
    assert bool(compiled.prune(obj)) == (obj != before)
    compiled.default(obj)
    once = copy.deepcopy(obj)
    assert compiled.prune(obj) == []
    compiled.default(obj)
    assert obj == once


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_defaults_are_copies(default):
    """Changing a defaulted object changes neither the schema nor the next object."""
    compiled = compile_schema(
        {"type": "object", "properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True, "default": default}}}
    )
    first: dict[str, Any] = {}
    compiled.default(first)
    for part in (first.get("spec"), *(first["spec"] if isinstance(first.get("spec"), list) else [])):
        if isinstance(part, dict | list):
            part.clear()
    second: dict[str, Any] = {}
    compiled.default(second)
    assert second == ({} if default is None else {"spec": default})
