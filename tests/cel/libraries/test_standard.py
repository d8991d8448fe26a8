"""The functions of the language."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.values import Duration, Timestamp, UInt
from tests.cel.evaluation import evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4 / 2 % 3", 5),
        ("1u + 2u", UInt(3)),
        ("1.5 * 2.0", 3.0),
        ("'a' + 'b'", "ab"),
        ("b'a' + b'b'", b"ab"),
        ("[1] + [2]", [1, 2]),
        ("timestamp(10) - duration('5s') == timestamp(5)", True),
        ("duration('1s') + duration('1s')", Duration(2 * 10**9)),
        ("1 < 1.5 && 2u > 1 && 1.0 <= 1u", True),
        ("'a' < 'b' && b'a' < b'b' && false < true", True),
        ("size('\u00e9\U0001f600') + 'ab'.size() + size(b'a') + [1].size() + {'a': 1}.size()", 7),
        ("'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')", True),
        ("'abc'.matches('b') && !matches('abc', '^b')", True),
        ("1 in [1, 2] && 'a' in {'a': 1} && !(1.5 in {1: 1}.map(k, dyn(k)))", True),
        ("{1: 'a'}[dyn(1.0)] + {1u: 'b'}[dyn(1)]", "ab"),
        ("int('1') + int(1.9) + int(2u) + int(timestamp(3))", 7),
        ("uint(3) == 3u && double('1.5') == 1.5", True),
        ("string(1) + string(1.0) + string(true) + string(b'x') + string(duration('1m')) + string(1u)", "11truex60s1"),
        ("bytes('a') == b'a' && bool('true') && dyn(1) == 1", True),
        ("timestamp('1970-01-01T00:00:01Z')", Timestamp(10**9)),
        ("string(timestamp(0))", "1970-01-01T00:00:00Z"),
        ("timestamp('2024-02-29T13:14:15.678Z').getFullYear()", 2024),
        ("timestamp('2024-02-29T13:14:15.678Z').getMonth()", 1),
        ("timestamp('2024-02-29T13:14:15.678Z').getDate() - timestamp(0).getDayOfMonth()", 29),
        ("timestamp('2024-02-29T13:14:15.678Z').getDayOfYear()", 59),
        ("timestamp('2024-02-29T13:14:15.678Z').getDayOfWeek()", 4),
        ("timestamp('2024-02-29T13:14:15.678Z').getHours('+01:00')", 14),
        ("timestamp('2024-02-29T13:14:15.678Z').getMilliseconds()", 678),
        ("duration('-1h30m').getMinutes() + duration('90m').getHours()", -89),
        ("duration('1.5s').getMilliseconds()", 1500),
        ("type(1u) == uint && type(null) == null_type && type([]) == list && type({}) == map", True),
        ("type(timestamp(0)) == google.protobuf.Timestamp", True),
    ],
)
def test_values(text: str, value: Any) -> None:
    """Operators, conversions and accessors, each by an example."""
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775807 + 1",
        "-(-9223372036854775807 - 1)",
        "0u - 1u",
        "1 % 0",
        "int('x' + '')",
        "string(b'\\xff' + b'')",
        "timestamp(253402300800 + 0)",
        "timestamp(0).getHours('Nowhere')",
        "{'a': 1}['b']",
        "[1][dyn('a')]",
        "[1][dyn(0.5)]",
        "'a'.matches(dyn('('))",
        "{'a': 1}[dyn([])]",
    ],
)
def test_errors(text: str) -> None:
    """What has no value is an error of the evaluation."""
    with pytest.raises(EvaluationError):
        evaluate(text)
