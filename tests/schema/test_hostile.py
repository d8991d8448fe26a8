"""Schemas and objects that were made to hurt get an answer, and a bounded one."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.structural.default import MAX_FILLED, TooManyDefaultsError
from kcp_py.schema.structural.widths import exceeds, width

STRING = {"type": "string"}


def of(spec: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}}


def nested_defaults(levels: int, each: int) -> dict[str, Any]:
    """Lists in lists: each level's default has so many empty items, each of which gets the next level's."""
    schema: dict[str, Any] = {"type": "object", "properties": {"leaf": {**STRING, "default": "x"}}}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"list": {"type": "array", "items": schema, "default": [{}] * each}}}
    return schema


def test_defaults_of_defaults_do_not_multiply_without_end() -> None:
    """A schema of a few kilobytes that would make ten to the eighteenth objects of an empty one."""
    compiled = compile_schema(of(nested_defaults(6, 1000)))
    with pytest.raises(TooManyDefaultsError):
        compiled.default({"spec": {}})


def test_defaults_of_many_items_end_somewhere() -> None:
    """A large default in each of many items: the filled bytes stay within the limit."""
    compiled = compile_schema(of({"type": "array", "items": {"type": "object", "properties": {"a": {**STRING, "default": "x" * 1000}}}}))
    obj: dict[str, Any] = {"spec": [{} for _ in range(100_000)]}
    with pytest.raises(TooManyDefaultsError):
        compiled.default(obj)
    assert 0 < sum(map(bool, obj["spec"])) <= MAX_FILLED // 1000


def test_filling_can_be_continued() -> None:
    """What did not fit into a small allowance is filled in by the next call, and the result is that of one call."""
    compiled = compile_schema(of(nested_defaults(2, 10)))
    at_once: dict[str, Any] = {"spec": {}}
    compiled.default(at_once)
    bit_by_bit: dict[str, Any] = {"spec": {}}
    for _ in range(1000):
        try:
            compiled.default(bit_by_bit, 200)
        except TooManyDefaultsError:
            continue
        break
    assert bit_by_bit == at_once


def test_nulls_that_become_defaults_are_counted() -> None:
    """In lists and in maps."""
    default = {"type": "object", "default": {"x": "y" * 1000}, "x-kubernetes-preserve-unknown-fields": True}
    for schema, value in (
        ({"type": "array", "items": default}, [None] * 100_000),
        ({"type": "object", "additionalProperties": default}, {str(index): None for index in range(100_000)}),
    ):
        with pytest.raises(TooManyDefaultsError):
            compile_schema(of(schema)).default({"spec": value})


def test_a_value_is_found_in_a_huge_enum_at_once() -> None:
    """A hundred thousand values, each looked for among as many, of all types: 1 is 1.0 and is not true."""
    choices: list[Any] = [*range(2, 100_000), 1.5, "a", None, {"a": [1]}]
    compiled = compile_schema(of({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True, "enum": choices}}))
    assert compiled.is_valid({"spec": [*range(2, 100_000), 2.0, 1.5, "a", {"a": [1.0]}]})
    others: list[Any] = [True, 1, 2.5, "2", {"a": [True]}, []]
    for wrong in others:
        assert not compiled.is_valid({"spec": [wrong]}), wrong


def test_alternatives_times_values_are_bounded() -> None:
    """Ten thousand alternatives for each of a hundred thousand items are refused unseen; for a few items they are tried."""
    alternatives = [{"properties": {"a": {"enum": [str(index)]}}} for index in range(10_000)]
    schema = of({"type": "array", "items": {"type": "object", "properties": {"a": STRING}, "anyOf": alternatives}})
    compiled = compile_schema(schema)
    assert compiled.is_valid({"spec": [{"a": "7"}]})
    (error,) = compiled.validate({"spec": [{"a": "no"}] * 100_000})
    assert "must not need more than" in error.text
    assert compiled.validate({"spec": [{"a": "7"}]}) == []


def test_width_counts_what_looks_at_one_value() -> None:
    """Alternatives at a value and above it; those of siblings do not count."""
    leaf = {"type": "string", "anyOf": [{"minLength": 1}, {"maxLength": 3}]}
    assert width(compile_schema({"type": "object"}).root) == 1
    assert width(compile_schema(of(leaf)).root) == 3
    assert width(compile_schema({"type": "object", "properties": {"a": leaf, "b": leaf}}).root) == 3
    both = {"type": "object", "properties": {"a": leaf}, "not": {"properties": {"a": {"minLength": 9}}}}
    assert width(compile_schema(both).root) == 5


def test_values_are_counted() -> None:
    """Keys, items and containers, only as far as needed."""
    assert not exceeds({"a": [1, 2], "b": {}}, 5)
    assert exceeds({"a": [1, 2], "b": {}}, 4)


def test_repeated_failures_end_somewhere() -> None:
    """A hundred thousand wrong items are told in part."""
    compiled = compile_schema(of({"type": "array", "items": {**STRING, "enum": ["x" * 100] * 100, "pattern": "(a*)*b"}}))
    assert 1 <= len(compiled.validate({"spec": ["a" * 20] * 100_000})) <= 1001


def test_the_weight_of_patterns_is_that_of_the_heaviest() -> None:
    """Wherever in the schema it is; patterns without counted repetitions weigh nothing."""
    heavy = {"type": "object", "additionalProperties": {**STRING, "anyOf": [{"pattern": "^(a{10}){20}$"}]}}
    assert compile_schema(of({"type": "object", "properties": {"a": {**STRING, "pattern": "b{3}"}, "c": heavy}})).pattern_weight == 200
    assert compile_schema(of({**STRING, "pattern": "^(a+)*$"})).pattern_weight == 0


def test_the_values_of_an_enumeration_have_a_weight() -> None:
    """The text that refuses a value names all of them: 200,000 are not named on the event loop, those of every day are."""
    assert compile_schema(of({**STRING, "enum": [str(number) for number in range(200_000)]})).pattern_weight == 200_000
    assert compile_schema(of({**STRING, "enum": [str(number) for number in range(100)]})).pattern_weight == 0
