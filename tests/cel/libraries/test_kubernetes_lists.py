"""Kubernetes' functions of lists: upstream's examples and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.libraries.kubernetes_lists import KUBERNETES_LISTS
from kcp_py.cel.libraries.strings import STRINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "[1, 2, 3].isSorted()": True,
    "['a', 'b', 'b', 'c'].isSorted()": True,
    "[2.0, 1.0].isSorted()": False,
    "[1].isSorted()": True,
    "[].isSorted()": True,
    "[false, true].isSorted()": True,
    "[duration('1s'), duration('1m')].isSorted()": True,
    "[timestamp('2012-01-01T00:00:00Z'), timestamp('2011-01-01T00:00:00Z')].isSorted()": False,
    "[b'b', b'a'].isSorted()": False,
    "dyn([dyn(1), dyn('a'), dyn(0)]).isSorted()": True,
    "dyn([dyn(1), dyn(1.5), dyn(2u)]).isSorted()": True,
    "[1, 3].sum()": 4,
    "[1.0, 3.0].sum()": 4.0,
    "[duration('1m'), duration('1s')].sum() == duration('1m1s')": True,
    "[1u, 2u].sum() == 3u": True,
    "[].sum() == 0": True,
    "dyn([1.5, 2.5]).sum()": 4.0,
    "dyn([1, 2]).sum()": 3,
    "[1, 3].min()": 1,
    "[1, 3].max()": 3,
    "([0] + []).min()": 0,
    "['b', 'a'].max()": "b",
    "dyn([dyn(2), 1.5]).min()": 1.5,
    "[1, 2, 2, 3].indexOf(2)": 1,
    "['a', 'b', 'b', 'c'].lastIndexOf('b')": 2,
    "[1.0].indexOf(1.1)": -1,
    "[].indexOf('string')": -1,
    "[[1], [2]].indexOf([2])": 1,
    "dyn(['a', 'b']).indexOf('b')": 1,
    "dyn('ab').indexOf('b')": 1,
    "dyn('abb').lastIndexOf(dyn('b'))": 2,
    "dyn([dyn(true)]).indexOf(dyn(1))": -1,
    "dyn([dyn(1)]).indexOf(1.0)": 0,
    "[1, 2, 3].includes(2)": True,
    "[1, 2, 3].includes(4)": False,
    "[1, 2, 3].includes(2.0)": True,
    "'model-a'.includes('model-a')": True,
    "'model-a'.includes('model')": False,
    "[[1]].includes([1])": True,
    "dyn(null).includes('a')": False,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Each function gives upstream's result, next to the functions of strings of the same names."""
    assert evaluate(text, KUBERNETES_LISTS, STRINGS) == wanted


ERRORS = {
    "[].min()": "min called on empty list",
    "[].max()": "max called on empty list",
    "dyn([[1], [2]]).isSorted()": "no such overload",
    "dyn([dyn(null)]).max()": "no such overload",
    "dyn(['a']).sum()": "no such overload",
    "dyn([dyn(1), 1.0]).sum()": "no such overload",
    "dyn({}).isSorted()": "no such overload",
    "[9223372036854775807, 1, -1].sum()": "integer overflow",
    "[18446744073709551615u, 1u].sum()": "unsigned integer overflow",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """Nothing has no extreme, sums have 64 bits, and only comparable elements are compared."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, KUBERNETES_LISTS, STRINGS)
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["[[1]].isSorted()", "['a'].sum()", "[true].sum()", "1.isSorted()", "['a'].indexOf(1)"])
def test_types(evaluate: Evaluate, text: str) -> None:
    """Types that do not fit are known before evaluation."""
    with pytest.raises(CompileError):
        evaluate(text, KUBERNETES_LISTS)
