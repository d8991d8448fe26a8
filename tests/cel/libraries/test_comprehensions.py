"""Macros with two variables."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.errors import CompileError, EvaluationError
from tests.cel.evaluation import compiled, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[5, 6].all(i, v, v == i + 5)", True),
        ("{'a': 1}.all(k, v, k == 'a' && v == 1)", True),
        ("[1, 0].all(i, v, 1 / v == 2)", False),
        ("[1, 2].exists(i, v, i == 1 && v == 2)", True),
        ("{'a': 1}.exists(k, v, k == 'b')", False),
        ("[1, 2].existsOne(i, v, v > 0)", False),
        ("[1, 2].exists_one(i, v, v > 1)", True),
        ("[1, 2].transformList(i, v, i * v)", [0, 2]),
        ("[1, 2].transformList(i, v, i > 0, i * v)", [2]),
        ("{'a': 1, 'b': 2}.transformList(k, v, v > 1, k)", ["b"]),
        ("[3, 4].transformMap(i, v, v)", {0: 3, 1: 4}),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2)", {"b": 4}),
        ("{'a': 'b'}.transformMapEntry(k, v, {v: k})", {"b": "a"}),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, v > 1, {v: k})", {2: "b"}),
        ("{'a': [1, 2]}.transformMap(k, v, v.transformList(i, e, e + i))", {"a": [1, 3]}),
        ("dyn([1]).transformList(i, v, i)", [0]),
        ("dyn({1: 2}).transformList(k, v, k + v)", [3]),
        ("{true: 1}.transformList(k, v, k)", [True]),
        ("{true: 1}.transformMap(k, v, k)[true]", True),
    ],
)
def test_values(text: str, value: Any) -> None:
    """The first variable is the index or key, the second the element or value."""
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})", "insert failed: key 1 already exists"),
        ("['a'].transformMapEntry(i, v, {dyn(1.5): v})", "unsupported key type"),
        ("dyn(1).transformList(i, v, v)", "no such overload"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """No key is given twice, and nothing but lists and maps is walked."""
    with pytest.raises(EvaluationError, match=message):
        evaluate(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1].all(i, i, true)", "duplicate variable name: i"),
        ("[1].transformList(1, v, v)", "argument must be a simple name"),
        ("[1].transformMapEntry(i, v, v)", "found no matching overload for 'cel.@mapInsert'"),
        ("1.all(i, v, true)", "cannot be range of a comprehension"),
    ],
)
def test_faults(text: str, message: str) -> None:
    """Names are checked when the macro is expanded, types as those of what it is expanded to."""
    with pytest.raises(CompileError, match=message):
        compiled(text)
