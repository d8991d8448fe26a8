"""When values are equal."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kcp_py.cel.equality import contains, equal, equality_for, identity, is_exact, type_of_value
from kcp_py.cel.types import BOOL, DOUBLE, DYN, INT, STRING, Field, Type, list_of, map_of, object_of, optional_of
from kcp_py.cel.values import NONE, BoolKey, Duration, Optional, Timestamp, TypeValue, UInt


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, UInt(1), True),
        (True, 1, False),
        (False, 0, False),
        (0, None, False),
        ("1", 1, False),
        (2**53 + 1, float(2**53), False),
        (math.nan, math.nan, False),
        ([1, True], [1.0, True], True),
        ([1], [True], False),
        ([1], [1, 2], False),
        ({"a": [None]}, {"a": [None]}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ({BoolKey.TRUE: 1}, {1: 1}, False),
        (Optional(1), Optional(1.0), True),
        (Optional(None), NONE, False),
        (NONE, NONE, True),
        (Timestamp(1), Duration(1), False),
        (b"a", "a", False),
        (TypeValue(INT), TypeValue(INT), True),
    ],
)
def test_equal(one: Any, other: Any, *, same: bool) -> None:
    """Numbers by what they stand for, everything else by kind and content."""
    assert equal(one, other) is same
    assert equal(other, one) is same


def test_deep_values() -> None:
    """Data as deep as requests may be is compared."""
    one: Any = 1
    other: Any = 1.0
    for _ in range(100_000):
        one, other = [one], [other]
    assert equal(one, other)


def test_contains() -> None:
    """Membership is equality with an element."""
    assert contains(1.0, [True, 1])
    assert not contains(1, [True])


OBJECT = object_of("O", {"s": Field(list_of(INT, list_type="set"), "s"), "n": Field(STRING, "n")})


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        (list_of(INT), [1, 2], [2, 1], False),
        (list_of(INT, list_type="set"), [1, 2], [2, 1], True),
        (list_of(INT, list_type="set"), [1, 2], [2, 3], False),
        (list_of(INT, list_type="set"), [1], [1, 2], False),
        (list_of(DYN, list_type="set"), [1, True], [True, 1.0], True),
        (list_of(DYN, list_type="set"), [1, "x"], [True, "x"], False),
        (list_of(DYN, list_type="set"), [{"a": [1]}, None], [None, {"a": [1.0]}], True),
        (list_of(DYN, list_type="map", list_keys=("k",)), [{"k": 1, "v": 2}, {"k": 2}], [{"k": 2}, {"k": 1, "v": 2}], True),
        (list_of(DYN, list_type="map", list_keys=("k",)), [{"k": 1, "v": 2}], [{"k": 1, "v": 3}], False),
        (map_of(STRING, list_of(INT, list_type="set")), {"a": [1, 2]}, {"a": [2, 1]}, True),
        (map_of(STRING, list_of(INT, list_type="set")), {"a": [1, 2]}, {"b": [2, 1]}, False),
        (OBJECT, {"s": [1, 2], "n": "x"}, {"s": [2, 1], "n": "x"}, True),
        (OBJECT, {"s": [1, 2], "n": "x"}, {"s": [2, 1], "n": "y"}, False),
        (list_of(OBJECT), [{"s": [1, 2]}], [{"s": [2, 1]}], True),
        (list_of(INT, list_type="set"), None, [1], False),
        (OBJECT, None, None, True),
    ],
)
def test_declared_lists(kind: Type, one: Any, other: Any, *, same: bool) -> None:
    """The order of sets and map lists does not count, wherever they are."""
    assert equality_for(kind)(one, other) is same


def test_large_sets_of_objects() -> None:
    """Sets are compared in linear time, whatever they hold."""
    items = [{"a": [index]} for index in range(50_000)]
    assert equality_for(list_of(DYN, list_type="set"))(items, items[::-1])


@pytest.mark.parametrize(
    ("kind", "exact"),
    [
        (INT, True),
        (DOUBLE, True),
        (DYN, False),
        (list_of(STRING), True),
        (list_of(DOUBLE), False),
        (list_of(INT, list_type="set"), False),
        (map_of(STRING, BOOL), True),
        (map_of(INT, BOOL), False),
        (object_of("O", {"a": Field(DYN, "a")}), False),
        (optional_of(INT), False),
    ],
)
def test_exactness(kind: Type, *, exact: bool) -> None:
    """Python's own equality is used only where it is the same."""
    assert is_exact(kind) is exact


def test_identity_tells_what_equality_tells() -> None:
    """Equal values have equal identities, others have not."""
    values: list[Any] = [None, 0, 1, 2.5, True, False, "1", [], [1], {}, {"a": 1}, {"a": [True]}]
    for one in values:
        for other in values:
            assert (identity(one) == identity(other)) is equal(one, other)


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "int"), (True, "bool"), (None, "null_type"), ([], "list"), ({}, "map"), (NONE, "optional_type"), (TypeValue(INT), "type")],
)
def test_types_of_values(value: Any, name: str) -> None:
    """Every value has a type, types too."""
    assert type_of_value(value).type.name == name
