"""Numbers of 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from kcp_py.cel import arithmetic
from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt


@pytest.mark.parametrize(
    ("function", "one", "other", "result"),
    [
        (arithmetic.divide_int, 7, 2, 3),
        (arithmetic.divide_int, -7, 2, -3),
        (arithmetic.divide_int, 7, -2, -3),
        (arithmetic.divide_int, INT_MIN, 1, INT_MIN),
        (arithmetic.modulo_int, 7, 3, 1),
        (arithmetic.modulo_int, -7, 3, -1),
        (arithmetic.modulo_int, 7, -3, 1),
        (arithmetic.divide_uint, UInt(7), UInt(2), UInt(3)),
        (arithmetic.modulo_uint, UInt(7), UInt(2), UInt(1)),
        (arithmetic.divide_double, 1.0, 0.0, math.inf),
        (arithmetic.divide_double, -1.0, 0.0, -math.inf),
        (arithmetic.divide_double, 1.0, -0.0, -math.inf),
        (arithmetic.divide_double, 3.0, 2.0, 1.5),
        (arithmetic.multiply_double, 1e300, 1e300, math.inf),
    ],
)
def test_results(function: Callable[[Any, Any], Any], one: Any, other: Any, result: Any) -> None:
    """Division goes towards zero, the rest has the sign of the dividend, doubles know infinity."""
    assert function(one, other) == result
    assert type(function(one, other)) is type(result)


def test_no_number() -> None:
    """Zero by zero is not a number."""
    assert math.isnan(arithmetic.divide_double(0.0, 0.0))
    assert math.isnan(arithmetic.divide_double(math.nan, 0.0))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (arithmetic.to_int, (INT_MAX + 1,), "integer overflow"),
        (arithmetic.to_int, (INT_MIN - 1,), "integer overflow"),
        (arithmetic.to_uint, (-1,), "unsigned integer overflow"),
        (arithmetic.to_uint, (UINT_MAX + 1,), "unsigned integer overflow"),
        (arithmetic.divide_int, (1, 0), "division by zero"),
        (arithmetic.divide_int, (INT_MIN, -1), "integer overflow"),
        (arithmetic.modulo_int, (1, 0), "modulus by zero"),
        (arithmetic.modulo_int, (INT_MIN, -1), "integer overflow"),
        (arithmetic.divide_uint, (UInt(1), UInt(0)), "division by zero"),
        (arithmetic.modulo_uint, (UInt(1), UInt(0)), "modulus by zero"),
    ],
)
def test_errors(function: Callable[..., Any], arguments: tuple[Any, ...], message: str) -> None:
    """What does not fit into 64 bits has no value."""
    with pytest.raises(EvaluationError, match=message):
        function(*arguments)


def test_sizes_are_bounded() -> None:
    """No value is made that is larger than what one evaluation may cost."""
    half = "x" * (arithmetic.LARGEST // 2)
    assert len(arithmetic.concatenate(half, half)) == arithmetic.LARGEST
    with pytest.raises(CostExceededError):
        arithmetic.concatenate(half, half + "x")
