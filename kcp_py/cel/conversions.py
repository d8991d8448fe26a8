"""`int(x)`, `string(x)` and their like (cel-spec, "Type conversions"; texts as Go's `strconv` reads and writes them)."""

from __future__ import annotations

import math
import re
from typing import Final

from kcp_py.cel.arithmetic import to_int, to_uint
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.times import duration_of, new_timestamp, timestamp_of
from kcp_py.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt
from kcp_py.golang.durations import SECOND

__all__ = [
    "bool_of_text",
    "double_of_text",
    "double_text",
    "duration_of_text",
    "int_of_double",
    "int_of_text",
    "int_of_timestamp",
    "text_of_bytes",
    "timestamp_of_int",
    "timestamp_of_text",
    "uint_of_double",
    "uint_of_text",
]

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+", re.ASCII | re.IGNORECASE)
_DIGITS: Final = 40
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
# The exponents between which Go's shortest `g` format writes no exponent.
_SMALLEST_PLAIN: Final = -4
_LARGEST_PLAIN: Final = 6


def _unreadable(kind: str) -> EvaluationError:
    """cel-go's words for text that is not a value of a type, for any fault (`types/string.go`)."""
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def int_of_text(text: str) -> int:
    """A decimal number."""
    if not _DECIMAL.fullmatch(text):
        raise _unreadable("int")
    if len(text) > _DIGITS or not INT_MIN <= (number := int(text)) <= INT_MAX:
        raise _unreadable("int")
    return number


def uint_of_text(text: str) -> UInt:
    """A decimal number without a sign."""
    if not _UNSIGNED.fullmatch(text):
        raise _unreadable("uint")
    if len(text) > _DIGITS or (number := int(text)) > UINT_MAX:
        raise _unreadable("uint")
    return UInt(number)


def double_of_text(text: str) -> float:
    """A decimal number with or without point and exponent, a hexadecimal one with an exponent of two, `NaN`, `Infinity`."""
    try:
        if _HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
        if not _FLOAT.fullmatch(text):
            raise _unreadable("double")
        value = float(text)
    except OverflowError as error:
        raise _unreadable("double") from error
    if math.isinf(value) and "n" not in text.lower():
        raise _unreadable("double")
    return value


def bool_of_text(text: str) -> bool:
    """What Go's `strconv.ParseBool` reads."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _unreadable("bool")


def int_of_double(value: float) -> int:
    """The integer part."""
    if not math.isfinite(value) or not INT_MIN < value < INT_MAX:
        msg = "integer overflow"
        raise EvaluationError(msg)
    return to_int(int(value))


def uint_of_double(value: float) -> UInt:
    """The integer part of a number that is not negative."""
    if not math.isfinite(value) or not 0 <= value < UINT_MAX:
        msg = "unsigned integer overflow"
        raise EvaluationError(msg)
    return to_uint(int(value))


def double_text(value: float) -> str:
    """The shortest text that reads back as the same number, as Go's `strconv.FormatFloat(v, 'g', -1, 64)` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0"
    # The place of the first digit that is not zero, as an exponent of ten.
    place = len(whole) - 1 + int(exponent or "0") - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not _SMALLEST_PLAIN <= place < _LARGEST_PLAIN:
        point = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        return f"{sign}{point}e{'-' if place < 0 else '+'}{abs(place):02d}"
    if place < 0:
        return f"{sign}0.{'0' * (-place - 1)}{digits}"
    head = digits[: place + 1].ljust(place + 1, "0")
    return f"{sign}{head}.{digits[place + 1 :]}" if len(digits) > place + 1 else f"{sign}{head}"


def text_of_bytes(value: bytes) -> str:
    """UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        msg = "invalid UTF-8 in bytes, cannot convert to string"
        raise EvaluationError(msg) from error


def timestamp_of_text(text: str) -> Timestamp:
    """RFC 3339."""
    value = timestamp_of(text)
    if value is None:
        raise _unreadable("google.protobuf.Timestamp")
    return value


def duration_of_text(text: str) -> Duration:
    """Go's `time.ParseDuration`."""
    value = duration_of(text)
    if value is None:
        raise _unreadable("google.protobuf.Duration")
    return value


def timestamp_of_int(seconds: int) -> Timestamp:
    """Seconds since 1970."""
    return new_timestamp(seconds * SECOND)


def int_of_timestamp(value: Timestamp) -> int:
    """Whole seconds since 1970."""
    return value.nanoseconds // SECOND
