"""Text and numbers become one another as Go's `strconv` has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from kcp_py.cel import conversions
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt


@pytest.mark.parametrize(
    ("function", "given", "value"),
    [
        (conversions.int_of_text, "-9223372036854775808", INT_MIN),
        (conversions.int_of_text, "+7", 7),
        (conversions.uint_of_text, "18446744073709551615", UInt(UINT_MAX)),
        (conversions.double_of_text, "1e3", 1000.0),
        (conversions.double_of_text, ".5", 0.5),
        (conversions.double_of_text, "-Inf", -math.inf),
        (conversions.double_of_text, "infinity", math.inf),
        (conversions.double_of_text, "0x1p-2", 0.25),
        (conversions.bool_of_text, "T", True),
        (conversions.bool_of_text, "0", False),
        (conversions.int_of_double, 2.9, 2),
        (conversions.int_of_double, -2.9, -2),
        (conversions.uint_of_double, 2.9, UInt(2)),
        (conversions.double_text, 1.0, "1"),
        (conversions.double_text, -0.0, "-0"),
        (conversions.double_text, 0.0001, "0.0001"),
        (conversions.double_text, 0.00001, "1e-05"),
        (conversions.double_text, 123456.0, "123456"),
        (conversions.double_text, 1234567.0, "1.234567e+06"),
        (conversions.double_text, 1e21, "1e+21"),
        (conversions.double_text, 1.5e-300, "1.5e-300"),
        (conversions.double_text, math.inf, "+Inf"),
        (conversions.double_text, math.nan, "NaN"),
        (conversions.text_of_bytes, b"\xc3\xa9", "\u00e9"),
        (conversions.timestamp_of_text, "1970-01-01T00:00:01Z", Timestamp(10**9)),
        (conversions.duration_of_text, "1ms", Duration(10**6)),
        (conversions.timestamp_of_int, -1, Timestamp(-(10**9))),
        (conversions.int_of_timestamp, Timestamp(-1), -1),
    ],
)
def test_values(function: Callable[[Any], Any], given: Any, value: Any) -> None:
    """What can be read is read exactly."""
    assert function(given) == value
    assert type(function(given)) is type(value)


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (conversions.int_of_text, "1.0", "type conversion error from 'string' to 'int'"),
        (conversions.int_of_text, "9223372036854775808", "type conversion error from 'string' to 'int'"),
        (conversions.int_of_text, "9" * 100_000, "type conversion error from 'string' to 'int'"),
        (conversions.int_of_text, " 1", "type conversion error from 'string' to 'int'"),
        (conversions.int_of_text, "\u0661", "type conversion error from 'string' to 'int'"),
        (conversions.int_of_text, "1_0", "type conversion error from 'string' to 'int'"),
        (conversions.uint_of_text, "-1", "type conversion error from 'string' to 'uint'"),
        (conversions.uint_of_text, "18446744073709551616", "type conversion error from 'string' to 'uint'"),
        (conversions.double_of_text, "1e400", "type conversion error from 'string' to 'double'"),
        (conversions.double_of_text, "0x1p5000", "type conversion error from 'string' to 'double'"),
        (conversions.double_of_text, "0x10", "type conversion error from 'string' to 'double'"),
        (conversions.double_of_text, "1_0", "type conversion error from 'string' to 'double'"),
        (conversions.bool_of_text, "yes", "type conversion error from 'string' to 'bool'"),
        (conversions.int_of_double, float(INT_MAX), "integer overflow"),
        (conversions.int_of_double, math.nan, "integer overflow"),
        (conversions.uint_of_double, -1.0, "unsigned integer overflow"),
        (conversions.uint_of_double, float(UINT_MAX), "unsigned integer overflow"),
        (conversions.text_of_bytes, b"\xff", "invalid UTF-8"),
        (conversions.timestamp_of_text, "x", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        (conversions.duration_of_text, "x", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        (conversions.timestamp_of_int, 10**12, "timestamp overflow"),
    ],
)
def test_errors(function: Callable[[Any], Any], given: Any, message: str) -> None:
    """What cannot be read is said in cel-go's words."""
    with pytest.raises(EvaluationError) as raised:
        function(given)
    assert message in str(raised.value)
