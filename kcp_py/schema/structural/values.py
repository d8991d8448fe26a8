"""What JSON values are to an OpenAPI schema: their type names, equality, integrality.

Source: k8s.io/kube-openapi `pkg/validation/validate/type.go`, github.com/go-openapi/swag `conv.IsFloat64AJSONInteger`.
"""

from __future__ import annotations

import math
from typing import Any, Final

_MAX_JSON_FLOAT: Final = float(2**53 - 1)
_EPSILON: Final = 1e-9

_NAMES: Final = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}


def type_and_format(value: Any) -> tuple[str, str]:
    """The schema's name for the type of a decoded value that is not null, and the format that goes with it."""
    return _NAMES[type(value)]


def is_integral(number: float) -> bool:
    """Whether a float passes for an integer: whole (within rounding), and exact in a double."""
    if not -_MAX_JSON_FLOAT <= number <= _MAX_JSON_FLOAT:
        return False
    whole = math.floor(abs(number) + 0.5)
    return abs(number) == whole or abs(abs(number) - whole) < _EPSILON * whole


def is_multiple(number: float, factor: float) -> bool:
    """`multipleOf`: integers by integer division, anything else by division of doubles."""
    if type(number) is int:
        whole = math.trunc(factor)
        return whole != 0 and number % whole == 0
    quotient = number / factor if factor >= 1 else 1 / factor * number
    return is_integral(quotient)


_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1)}
_INT64: Final = (-(2**63), 2**63 - 1)
_MAX_FLOAT32: Final = float.fromhex("0x1.fffffep+127")

NARROW_FORMATS: Final = frozenset(_RANGES)
"""Formats of integers that not every int64 has."""


def in_range(number: float, kind: str, name: str) -> bool:
    """Whether a number has the capacity of its type and format: no fraction or overflow in an integer, no overflow in a 32-bit float."""
    if kind == "integer":
        low, high = _RANGES.get(name, _INT64)
        return number == math.trunc(number) and low <= number <= high
    return name not in {"float", "float32"} or abs(number) <= _MAX_FLOAT32
