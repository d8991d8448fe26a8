"""Literals that cannot be what they are used as."""

from __future__ import annotations

import pytest

from kcp_py.cel.errors import CompileError
from tests.cel.evaluation import compiled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duration('1')", "invalid duration argument"),
        ("timestamp('yesterday')", "invalid timestamp argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("matches('a', '(')", "invalid matches argument"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("[1, [2]]", "expected type 'int' but found 'list(int)'"),
        ("{'a': 1, 2: 3}", "expected type 'string' but found 'int'"),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'"),
        ("[[1, 'a']]", "expected type 'int' but found 'string'"),
        ("true || duration('x') == duration('1s')", "invalid duration argument"),
    ],
)
def test_faults(text: str, message: str) -> None:
    """Constant durations, timestamps and patterns are read when the expression is compiled, and literals are of one type."""
    with pytest.raises(CompileError) as raised:
        compiled(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["duration('1s')", "timestamp('2020-01-01T00:00:00Z')", "'('.matches('a')", "[1, dyn('a')]", "{'a': dyn(1), 'b': 'c'}", "[[], [1]]"],
)
def test_what_is_accepted(text: str) -> None:
    """`dyn` goes with everything."""
    compiled(text)
