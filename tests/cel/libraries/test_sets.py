"""Lists as sets: cel-go's examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.libraries.sets import SETS

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "sets.contains([], [])": True,
    "sets.contains([], [1])": False,
    "sets.contains([1, 2, 3, 4], [2, 3])": True,
    "sets.contains([dyn(1), dyn(2.0), dyn(3u)], [dyn(1.0), dyn(2u), dyn(3)])": True,
    "sets.contains([1, 2], [2, 5])": False,
    "sets.contains(dyn([dyn(true)]), dyn([dyn(1)]))": False,
    "sets.contains([[1], [2, 3]], [[2, 3]])": True,
    "sets.contains([{'a': 1}], [{'a': 1}])": True,
    "sets.contains([dyn(null)], [dyn('')])": False,
    "sets.contains([double('NaN')], [double('NaN')])": False,
    "sets.equivalent([], [])": True,
    "sets.equivalent([1], [1, 1])": True,
    "sets.equivalent([dyn(1)], [dyn(1u), 1.0])": True,
    "sets.equivalent([1, 2, 3], [3, 2, 1, 4])": False,
    "sets.intersects([1], [])": False,
    "sets.intersects([1], [1, 2])": True,
    "sets.intersects([[dyn(1)], [dyn(2), 3]], [[dyn(1), 2], [dyn(2), 3.0]])": True,
    "sets.intersects([b'a'], [b'b'])": False,
    "sets.intersects([dyn(b'a')], [dyn('a')])": False,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Relations of sets go by CEL's equality."""
    assert evaluate(text, SETS) is wanted


def test_other_types(evaluate: Evaluate) -> None:
    """Values other than lists have no overload."""
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate("sets.contains(x, x)", SETS, x={"a": 1})


def test_large_lists(evaluate: Evaluate) -> None:
    """Scalars are looked up, not compared each with each."""
    assert evaluate("sets.equivalent(x, y)", SETS, x=list(range(5000)), y=list(range(4999, -1, -1))) is True
