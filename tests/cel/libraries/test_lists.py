"""More functions of lists: cel-go's examples and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError
from kcp_py.cel.libraries.lists import LISTS

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "lists.range(4)": [0, 1, 2, 3],
    "lists.range(0)": [],
    "[5, 1, 2, 3].reverse()": [3, 2, 1, 5],
    "[].reverse()": [],
    "[1, 2, 3, 4].slice(0, 4)": [1, 2, 3, 4],
    "[1, 2, 3, 4].slice(1, 3)": [2, 3],
    "[1, 2, 3, 4].slice(4, 4)": [],
    "dyn([]).flatten()": [],
    "[[1, 2], [], [3]].flatten()": [1, 2, 3],
    "dyn([1, 2, 3, 4]).flatten()": [1, 2, 3, 4],
    "[dyn(1), [dyn(2), [3, 4]]].flatten()": [1, 2, [3, 4]],
    "[dyn(1), [dyn(2), [dyn(3), [4]]]].flatten(2)": [1, 2, 3, [4]],
    "[dyn(1), [2]].flatten(0)": [1, [2]],
    "[dyn(1), [dyn(2), [dyn(3), [4]]]].flatten(1000)": [1, 2, 3, 4],
    "[].distinct()": [],
    "[1, 2, 2, 3, 3, 3].distinct()": [1, 2, 3],
    "['b', 'b', 'c', 'a', 'c'].distinct()": ["b", "c", "a"],
    "[dyn(1), dyn('b'), dyn(2), dyn('b')].distinct()": [1, "b", 2],
    "[dyn(1), dyn(1.0), dyn(2u), dyn(true)].distinct() == [dyn(1), dyn(2u), dyn(true)]": True,
    "[[1], [1], [2]].distinct()": [[1], [2]],
    "[[dyn(1)], [1u]].distinct()": [[1]],
    "[double('NaN'), double('NaN')].distinct().size()": 2,
    "[].sort()": [],
    "[4, 3, 2, 1].sort()": [1, 2, 3, 4],
    "['d', 'a', 'b', 'c'].sort()": ["a", "b", "c", "d"],
    "[b'd', b'a', b'aa'].sort()": [b"a", b"aa", b"d"],
    "[true, false, true].sort()": [False, True, True],
    "[2u, 1u].sort() == [1u, 2u]": True,
    "[duration('1m'), duration('1s')].sort() == [duration('1s'), duration('1m')]": True,
    "[].sortBy(e, e)": [],
    "['a'].sortBy(e, e)": ["a"],
    "[-3, 1, -5, -2, 4].sortBy(e, -(e * e))": [-5, 4, -3, -2, 1],
    "[-3, 1, -5, -2, 4].map(e, e * 2).sortBy(e, -(e * e))": [-10, 8, -6, -4, 2],
    "lists.range(3).sortBy(e, -e)": [2, 1, 0],
    "['a', 'c', 'b', 'first'].sortBy(e, e == 'first' ? '' : e)": ["first", "a", "b", "c"],
    "[{'n': dyn('foo'), 's': dyn(0)}, {'n': dyn('bar'), 's': dyn(-10)}].sortBy(e, e.s).map(e, e.n)": ["bar", "foo"],
    "[[2, 1], [3]].map(l, l.sortBy(e, e)).sortBy(l, -l[0])": [[3], [1, 2]],
    "[3, 1].sortBy(e, [e, 2].sortBy(x, -x)[0])": [1, 3],
    "[2, 1].all(e, [e, 0].sortBy(x, x)[0] == 0)": True,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Each function gives what cel-go's gives."""
    assert evaluate(text, LISTS) == wanted


ERRORS = {
    "[1, 2, 3, 4].slice(3, 0)": "cannot slice(3, 0), start index must be less than or equal to end index",
    "[1, 2, 3, 4].slice(0, 10)": "cannot slice(0, 10), list is length 4",
    "[1, 2, 3, 4].slice(-5, 10)": "cannot slice(-5, 10), negative indexes not supported",
    "[1, 2, 3, 4].slice(-5, -3)": "cannot slice(-5, -3), negative indexes not supported",
    "[[1]].flatten(-1)": "level must be non-negative",
    "dyn([dyn(1), 'b']).sort()": "list elements must have the same type",
    "dyn([[1], [2]]).sort()": "list elements must be comparable",
    "dyn([1, 2]).sortBy(e, [e])": None,
    "dyn([1, 2]).sortBy(e, dyn([e]))": "list elements must be comparable",
    "lists.range(-1)": "lists.range: size must be non-negative, got -1",
    "lists.range(10000001)": "lists.range: size 10000001 exceeds maximum allowed (10000000)",
    "dyn(1).sort()": "no such overload",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str | None) -> None:
    """What cannot be done is an error in cel-go's words."""
    with pytest.raises((EvaluationError, CompileError)) as raised:
        evaluate(text, LISTS)
    if message is None:
        assert "found no matching overload for '@sortByAssociatedKeys'" in str(raised.value)
    else:
        assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "message"), [("[1].sortBy(a.b, 1)", "simple name"), ("'a'.sortBy(e, e)", "sortBy can only be applied to")]
)
def test_macro_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """`sortBy` declares a name, and sorts what may be a list."""
    with pytest.raises(CompileError, match=message):
        evaluate(text, LISTS)


def test_results_are_limited_before_they_are_made() -> None:
    """A list in a list many times, even an empty one, ranges without end and many lists to compare are refused at once."""
    run = {overload.id: overload.implementation for function in LISTS.functions for overload in function.overloads}
    items: list[object] = [1]
    empty: list[object] = []
    for _ in range(40):
        items, empty = [items, items], [empty, empty]
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("list_flatten_int", (items, 100)),
        ("list_flatten_int", (empty, 100)),
        ("lists_range", (9_999_999,)),
        ("list_distinct", ([[number] for number in range(2000)],)),
    ]
    for id_, arguments in calls:
        implementation = run[id_]
        assert implementation is not None
        with pytest.raises(CostExceededError):
            implementation(*arguments)


def test_deep_lists(evaluate: Evaluate) -> None:
    """Depth costs no stack."""
    items: list[object] = [1]
    for _ in range(100_000):
        items = [items]
    assert evaluate("x.flatten(500000)", LISTS, x=items) == [1]
