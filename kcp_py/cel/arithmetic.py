"""Arithmetic of 64 bits: an overflow is an error, division goes towards zero (cel-spec, "Numeric values"; cel-go `common/types`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "LARGEST",
    "concatenate",
    "divide_double",
    "divide_int",
    "divide_uint",
    "grown",
    "int_operation",
    "modulo_int",
    "modulo_uint",
    "multiply_double",
    "to_int",
    "to_uint",
    "uint_operation",
]

LARGEST: Final = 10_000_000
"""Characters, bytes or elements that one value may have: to make a larger one would cost more than one evaluation may."""


def to_int(value: int) -> int:
    """A number of 64 bits.

    Raises:
        EvaluationError: it is not one.
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    msg = "integer overflow"
    raise EvaluationError(msg)


def to_uint(value: int) -> UInt:
    """An unsigned number of 64 bits.

    Raises:
        EvaluationError: it is not one.
    """
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    msg = "unsigned integer overflow"
    raise EvaluationError(msg)


def int_operation(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """An operator on ints with its overflow checked."""
    return lambda one, other: to_int(operation(one, other))


def uint_operation(operation: Callable[[int, int], int]) -> Callable[[int, int], UInt]:
    """An operator on uints with its overflow checked."""
    return lambda one, other: to_uint(operation(int(one), int(other)))


def divide_int(one: int, other: int) -> int:
    """`/`, towards zero."""
    if other == 0:
        msg = "division by zero"
        raise EvaluationError(msg)
    quotient = abs(one) // abs(other)
    return to_int(quotient if (one < 0) == (other < 0) else -quotient)


def modulo_int(one: int, other: int) -> int:
    """`%`, with the sign of the dividend."""
    if other == 0:
        msg = "modulus by zero"
        raise EvaluationError(msg)
    if one == INT_MIN and other == -1:
        msg = "integer overflow"
        raise EvaluationError(msg)
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def divide_uint(one: int, other: int) -> UInt:
    """`/` of unsigned numbers."""
    if other == 0:
        msg = "division by zero"
        raise EvaluationError(msg)
    return UInt(int(one) // int(other))


def modulo_uint(one: int, other: int) -> UInt:
    """`%` of unsigned numbers."""
    if other == 0:
        msg = "modulus by zero"
        raise EvaluationError(msg)
    return UInt(int(one) % int(other))


def divide_double(one: float, other: float) -> float:
    """`/` as IEEE 754 has it: no error."""
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one) or math.isnan(other):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def multiply_double(one: float, other: float) -> float:
    """`*` as IEEE 754 has it."""
    return one * other


def grown(size: int) -> None:
    """Refuse to make a value of `size` characters, bytes or elements where that is beyond every budget.

    Raises:
        CostExceededError: it is.
    """
    if size > LARGEST:
        raise CostExceededError


def concatenate(one: Any, other: Any) -> Any:
    """`+` of strings, bytes or lists."""
    grown(len(one) + len(other))
    return one + other
