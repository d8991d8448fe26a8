"""What generated code calls."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel import runtime
from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.types import DYN, list_of
from kcp_py.cel.values import NONE, BoolKey, Budget, Optional


def test_calls_are_paid_for_first() -> None:
    """What cannot be paid is not made."""
    budget = Budget(5)
    assert runtime.charged(budget, len, str.upper, "abc") == "ABC"
    assert budget.left == 2
    with pytest.raises(CostExceededError):
        runtime.charged(budget, len, str.upper, "abc")


@pytest.mark.parametrize("value", [0, 1, None, "true", []])
def test_truth(value: Any) -> None:
    """Nothing but a bool is true or false."""
    assert runtime.truth(value=True) is True
    with pytest.raises(EvaluationError, match="no such overload"):
        runtime.truth(value)


def test_selections() -> None:
    """From maps and optionals a field can be selected. Null and scalars lack every field, and lists have elements alone, as in cel-go."""
    assert runtime.select_dynamic({"a": 1}, "a") == 1
    assert runtime.select_dynamic(Optional({"a": 1}), "a") == Optional(1)
    assert runtime.select_dynamic(NONE, "a") is NONE
    assert runtime.has_dynamic({"a": None}, "a")
    assert not runtime.has_dynamic(NONE, "a")
    for value in (None, 1, "text"):
        with pytest.raises(KeyError, match="a"):
            runtime.select_dynamic(value, "a")
        assert not runtime.has_dynamic(value, "a")
    for function in (runtime.select_dynamic, runtime.has_dynamic):
        with pytest.raises(EvaluationError, match="unsupported index type 'string' in list"):
            function([1], "a")
    with pytest.raises(EvaluationError, match="no such overload"):
        runtime.optional_select([1], "a")


def test_walks() -> None:
    """Lists and maps are walked; keys that are bools are bools again."""
    assert runtime.elements({BoolKey.TRUE: 1, "a": 2}) == [True, "a"]
    assert runtime.pairs(["x"]) == [(0, "x")]
    assert runtime.pairs({"a": 1}) == [("a", 1)]
    for function in (runtime.elements, runtime.pairs):
        with pytest.raises(EvaluationError, match="no such overload"):
            function("text")


def test_map_literals() -> None:
    """Keys differ and are of a kind that can be one."""
    assert runtime.map_literal([("a", 1, False), ("b", NONE, True), (True, Optional(2), True)]) == {"a": 1, BoolKey.TRUE: 2}
    with pytest.raises(EvaluationError, match="key a already exists"):
        runtime.map_literal([("a", 1, False), ("a", 2, False)])
    with pytest.raises(EvaluationError, match="unsupported key type"):
        runtime.map_literal([([], 1, False)])


def test_unions() -> None:
    """A set takes in what it does not have, a map list replaces what has the same keys."""
    sets = runtime.list_union(list_of(DYN, list_type="set"))
    assert sets([1, True], [True, 1.0, 2]) == [1, True, 2]
    maps = runtime.list_union(list_of(DYN, list_type="map", list_keys=("k",)))
    assert maps([{"k": 1}, {"k": True}], [{"k": 1, "v": 2}, {"k": 3}]) == [{"k": 1, "v": 2}, {"k": True}, {"k": 3}]
