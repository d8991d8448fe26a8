"""Quantities such as `100m`, `1.5Gi`, `2e3`: parsing, canonical form, comparison.

Source: k8s.io/apimachinery `pkg/api/resource` (`ParseQuantity`, `CanonicalizeBytes`, `Add`, `Sub`, `AsInt64`). Values are kept in
billionths, rounded away from zero. Binary ones stop at 2^63-1 as upstream's do, decimal ones at 10^400, where upstream's stop nowhere: the
size of the text does not determine the size of a number here, so hostile texts cost nothing.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, Literal, NamedTuple

import orjson

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

FORMAT_PROBLEM: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_PROBLEM: Final = "unable to parse quantity's suffix"

_NANO: Final = 10**9
_INT64_MAX: Final = 2**63 - 1
_MAX: Final = _INT64_MAX * _NANO
_TEXT: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,18})", re.ASCII)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_SIGNIFICANT: Final = 400
"""Digits before the point that a number can have."""
_LARGEST: Final = 10**_SIGNIFICANT * _NANO
_INT64_DIGITS: Final = 18
"""Digits that upstream counts on to fit into 64 bits (`maxInt64Factors`)."""


class Quantity(NamedTuple):
    """A parsed quantity. Compare `nano`, not the tuple."""

    nano: int
    """The value in billionths."""
    format: Format
    scale: int | None = None
    """The power of ten that upstream's 64-bit form of this quantity counts in; None: upstream keeps it as a decimal of any size."""

    @property
    def value(self) -> int:
        """The value rounded up to an integer."""
        return -(-self.nano // _NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nano // 10**6)

    @property
    def int64(self) -> int | None:
        """The value as a number of 64 bits where upstream has it as one; None: it has not, even if the value would fit (`AsInt64`)."""
        if self.scale is None or self.scale < 0:
            return None
        whole = self.nano // _NANO
        return whole if -_INT64_MAX <= whole <= _INT64_MAX else None

    @property
    def approximate(self) -> float:
        """The nearest float (`AsApproximateFloat64`); beyond the largest, infinity."""
        try:
            if self.scale is None:
                return self.nano / _NANO
            value = float(_unscaled(self.nano, self.scale))
            return value * 10.0**self.scale if self.scale else value
        except OverflowError:
            return math.inf if self.nano > 0 else -math.inf

    def plus(self, other: Quantity) -> Quantity:
        """The sum, in the format of `self` unless that is zero (`Add`)."""
        nano = self.nano + other.nano
        form = self.format if self.nano else other.format
        if self.scale is None or other.scale is None:
            return Quantity(nano, form)
        scale = other.scale if self.nano == 0 else self.scale if other.nano == 0 else min(self.scale, other.scale)
        return Quantity(nano, form, scale if abs(_unscaled(nano, scale)) <= _INT64_MAX else None)

    def minus(self, other: Quantity) -> Quantity:
        """The difference, in the format of `self` unless that is zero (`Sub`)."""
        return self.plus(Quantity(-other.nano, other.format, other.scale))

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that allows it."""
        if self.nano == 0:
            return "0"
        sign, nano = ("-", -self.nano) if self.nano < 0 else ("", self.nano)
        if self.format == "BinarySI" and nano >= 1024 * _NANO and nano % _NANO == 0:
            number, exponent = nano // _NANO, 0
            while number % 1024 == 0 and exponent < 60:
                number, exponent = number // 1024, exponent + 10
            return f"{sign}{number}{_BINARY_SUFFIX.get(exponent, '')}"
        exponent = -9
        most = _SIGNIFICANT if self.format == "DecimalExponent" else 18
        while nano % 1000 == 0 and exponent < most:
            nano, exponent = nano // 1000, exponent + 3
        if self.format == "DecimalExponent":
            return f"{sign}{nano}e{exponent}" if exponent else f"{sign}{nano}"
        return f"{sign}{nano}{_DECIMAL_SUFFIX[exponent]}"


def parse_quantity(value: Any) -> Quantity:
    """Read a quantity from its JSON form, a text or a number.

    Raises:
        ValueError: not a quantity, worded as upstream words it.
    """
    return parse_quantity_text(value.strip() if isinstance(value, str) else orjson.dumps(value).decode())


def parse_quantity_text(text: str) -> Quantity:
    """Read a quantity from text with nothing around it.

    Raises:
        ValueError: not a quantity, worded as upstream words it.
    """
    match = _TEXT.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(FORMAT_PROBLEM)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    base, power, form = _scale(suffix)
    scale = _int64_scale(whole, fraction, base, power)
    nano = min(_scaled(whole, fraction, base, power), _MAX if base == 2 and scale is None else _LARGEST)
    if base == 2 and 0 < nano < _NANO:
        form = "DecimalSI"
    return Quantity(-nano if sign == "-" else nano, form, scale)


def canonical(value: Any) -> str:
    """The form in which a quantity is stored and answered.

    Raises:
        ValueError: not a quantity.
    """
    return str(parse_quantity(value))


def _scale(suffix: str) -> tuple[int, int, Format]:
    if (power := _DECIMAL.get(suffix)) is not None:
        return 10, power, "DecimalSI"
    if (power := _BINARY.get(suffix)) is not None:
        return 2, power, "BinarySI"
    if match := _EXPONENT.fullmatch(suffix):
        return 10, int(match[1]), "DecimalExponent"
    raise ValueError(SUFFIX_PROBLEM)


def _int64_scale(whole: str, fraction: str, base: int, power: int) -> int | None:
    """The power of ten in which upstream counts a parsed number, where it takes its 64-bit way."""
    digits = max(len(whole.lstrip("0")), 1)
    if base == 2:
        return None if fraction or 15 - digits - power * 3 // 10 - 1 < 0 else 0
    if digits + len(fraction) > _INT64_DIGITS or not -9 <= power - len(fraction) <= _SIGNIFICANT - _INT64_DIGITS:
        return None
    return power - len(fraction)


def _unscaled(nano: int, scale: int) -> int:
    """Billionths counted in a power of ten that divides them."""
    unit: int = 10 ** (scale + 9)
    return nano // unit


def _scaled(whole: str, fraction: str, base: int, power: int) -> int:
    """`whole.fraction * base**power` in billionths, rounded up; anything too large is past `_MAX`."""
    whole = whole.lstrip("0")
    fraction = fraction.rstrip("0")
    if not whole and not fraction:
        return 0
    if base == 10:
        point = len(whole) + power
        digits = whole + fraction
        if len(digits.lstrip("0")) - len(digits) + point > _SIGNIFICANT:
            return _LARGEST
        # Move the point nine places, for billionths; digits after it round up.
        kept = point + 9
        if kept <= 0:
            return 1
        digits = digits.ljust(kept, "0")
        return int(digits[:kept]) + (1 if digits[kept:].strip("0") else 0)
    if len(whole) > _SIGNIFICANT:
        return _LARGEST
    tail = fraction[: _SIGNIFICANT * 2]
    numerator = int(whole + tail or "0") * (1 << power) * _NANO
    result: int = -(-numerator // 10 ** len(tail))
    return result + (1 if fraction[len(tail) :].strip("0") and numerator % 10 ** len(tail) == 0 else 0)
