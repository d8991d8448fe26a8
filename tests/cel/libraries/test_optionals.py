"""Values that may be absent."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.types import DYN, INT, STRING, TIMESTAMP, Field, list_of, map_of, object_of, optional_of
from kcp_py.cel.values import NONE, Optional, Timestamp
from tests.cel.evaluation import compiled, evaluate

INNER = object_of("Inner", {"count": Field(INT, "count"), "__namespace__": Field(STRING, "namespace"), "when": Field(TIMESTAMP, "when")})
OUTER = object_of(
    "Outer", {"inner": Field(INNER, "inner"), "items": Field(list_of(INT), "items"), "labels": Field(map_of(STRING, STRING), "labels")}
)
SELF = {"inner": {"count": 3, "namespace": "ns", "when": "1970-01-01T00:00:01Z"}, "items": [7, 8], "labels": {"a": "b"}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("optional.of(1).value()", 1),
        ("optional.of(1)", Optional(1)),
        ("optional.of(optional.none())", Optional(NONE)),
        ("optional.none()", NONE),
        ("optional.none().hasValue()", False),
        ("optional.of(null).hasValue()", True),
        ("optional.none().or(optional.of(2)).value()", 2),
        ("optional.of(1).or(optional.of(1 / 0)).value()", 1),
        ("optional.of(1).orValue(1 / 0)", 1),
        ("optional.none().orValue(5)", 5),
        ("dyn(optional.none()).orValue(5)", 5),
        ("optional.none().or(dyn(optional.of(4))).value()", 4),
        ("optional.of(1).orValue([1].all(x, x / 0 == 1) ? 2 : 3)", 1),
        ("optional.none().orValue([1].all(x, x == 1) ? 2 : 3)", 2),
        ("optional.of(3).optMap(x, x + 1)", Optional(4)),
        ("optional.none().optMap(x, x + 1)", NONE),
        ("optional.of(3).optFlatMap(x, x > 2 ? optional.of(x) : optional.none())", Optional(3)),
        ("optional.of(1) == optional.of(1)", True),
        ("optional.of(1) == optional.of(2)", False),
        ("optional.none() == optional.none()", True),
        ("optional.of(1) != optional.none()", True),
        ("[1, 2][?1].value()", 2),
        ("[1, 2][?2].hasValue()", False),
        ("[1, 2][?-1].hasValue()", False),
        ("[1, 2][?dyn(0.0)].value()", 1),
        ("{'a': 1}[?'a'].value()", 1),
        ("{'a': 1}[?'b'].hasValue()", False),
        ("{'a': 1}.?a.value()", 1),
        ("{'a': {'b': 1}}.?a.b.value()", 1),
        ("{'a': {'b': 1}}.?a.c.hasValue()", False),
        ("{'a': [1]}.?a[0].value()", 1),
        ("{'a': [1]}.?a[?1].hasValue()", False),
        ("{'a': {'b': 1}}.?a['b'].value()", 1),
        ("has({'a': {'b': 1}}.?a.b)", True),
        ("has({'a': {'b': 1}}.?c.b)", False),
        ("[1, ?optional.none(), ?optional.of(2)]", [1, 2]),
        ("{?'a': optional.none(), ?'b': optional.of(1)}", {"b": 1}),
        ("optional.unwrap([optional.of(1), optional.none()])", [1]),
        ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
        ("type(optional.none()) == optional_type", True),
    ],
)
def test_values(text: str, value: Any) -> None:
    """Present values are taken, absent ones are passed on, and alternatives are evaluated only when they are needed."""
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    ["null", "false", "0", "0u", "0.0", "''", "b''", "[]", "{}", "duration('0s')", "timestamp('0001-01-01T00:00:00Z')"],
)
def test_empty_values(text: str) -> None:
    """`ofNonZeroValue` takes the empty value of each type for none."""
    assert evaluate(f"optional.ofNonZeroValue({text})") is NONE


@pytest.mark.parametrize("text", ["true", "1", "'a'", "[0]", "{0: 0}", "duration('1s')", "timestamp(0)", "int"])
def test_other_values(text: str) -> None:
    """All others are there."""
    assert evaluate(f"optional.ofNonZeroValue({text}).hasValue()") is True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.?inner.count", Optional(3)),
        ("self.?inner.?__namespace__", Optional("ns")),
        ("self.?inner.__namespace__.value()", "ns"),
        ("has(self.?inner.__namespace__)", True),
        ("self.?inner.when.value()", Timestamp(1_000_000_000)),
        ("self.?items[0]", Optional(7)),
        ("self.items[?5]", NONE),
        ("self.?labels[?'a'].orValue('x')", "b"),
        ("self.?labels.c.orValue('x')", "x"),
        ("old.?inner.count.orValue(0)", 3),
        ("old.inner.optMap(i, i.count)", Optional(3)),
        ("old.hasValue() && old.value().items == self.items", True),
    ],
)
def test_declared_objects(text: str, value: Any) -> None:
    """Fields that are spelled otherwise in JSON, or adapted from it, are so behind an optional too."""
    assert evaluate(text, {"self": OUTER, "old": optional_of(OUTER)}, self=SELF, old=Optional(SELF)) == value


@pytest.mark.parametrize("text", ["old.?inner.count", "old.inner", "old.items[0]", "old.?items[?0]", "old.labels['a']"])
def test_absence_is_passed_on(text: str) -> None:
    """Whatever is selected from nothing is nothing."""
    assert evaluate(text, {"old": optional_of(OUTER)}, old=NONE) is NONE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optional.none().value()", "optional.none\\(\\) dereference"),
        ("dyn(1).orValue(2)", "no such overload"),
        ("optional.none().or(dyn(1))", "no such overload"),
        ("dyn({'a': 1}).?a.b", "no such overload"),
        ("[1][?dyn('a')]", "unsupported index"),
        ("[1, ?dyn(2)]", "no such overload"),
        ("{?'a': dyn(2)}", "no such overload"),
        ("optional.unwrap([dyn(1)])", "no such overload"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """A value that is not an optional, or an empty one, has no value."""
    with pytest.raises(EvaluationError, match=message):
        evaluate(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.?nope", "undefined field 'nope'"),
        ("old.nope", "undefined field 'nope'"),
        ("old.optMap(1, 1)", r"optMap\(\) variable name must be a simple identifier"),
        ("old.optFlatMap(a.b, 1)", r"optFlatMap\(\) variable name must be a simple identifier"),
        ("[1, ?2]", r"expected type 'optional_type\(int\)' but found 'int'"),
        ("optional.of(1).orValue('a')", "found no matching overload for 'orValue'"),
    ],
)
def test_faults(text: str, message: str) -> None:
    """Types are followed through optionals."""
    with pytest.raises(CompileError, match=message):
        compiled(text, {"self": OUTER, "old": optional_of(OUTER)})


def test_macros_keep_their_argument_apart() -> None:
    """A macro that evaluates its receiver twice does so for every kind of expression."""
    text = "{'k': [1, 2].map(x, x + 1), 'l': [{'m': 1}].filter(y, has(y.m)).map(z, z.m)}.?l.optMap(v, v.size()).optMap(w, w + 1)"
    assert evaluate(text) == Optional(2)
    assert evaluate("self.?a.optMap(v, v)", {"self": DYN}, self={"a": 1}) == Optional(1)
