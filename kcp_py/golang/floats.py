"""Floats as Go prints them: in messages (`%v`), in YAML, and as keys of YAML maps.

Source: Go `strconv.FormatFloat` with format `g` and the shortest precision.
"""

from __future__ import annotations

import math
import struct
from typing import Final

_PRECISION: Final = 6
"""The shortest form goes over to an exponent here."""


def format_float(value: float, bits: int = 64) -> str:
    """Go's `strconv.FormatFloat(value, 'g', -1, bits)`, with the infinities and NaN as YAML writes them."""
    if value != value:  # noqa: PLR0124  # NaN
        return ".nan"
    if value in {float("inf"), float("-inf")}:
        return ".inf" if value > 0 else "-.inf"
    if bits == 32:
        single = struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3.4028235677973366e38 else None
        if single is None:
            return ".inf" if value > 0 else "-.inf"
        shown = next(
            text
            for text in (f"{single:.{digits}e}" for digits in range(10))
            if struct.unpack("f", struct.pack("f", float(text)))[0] == single
        )
    else:
        shown = next(text for text in (f"{value:.{digits}e}" for digits in range(18)) if float(text) == value)
    mantissa, _, exponent_text = shown.partition("e")
    exponent = int(exponent_text)
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "")
    if exponent < -4 or exponent >= _PRECISION:
        point = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        return f"{sign}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"


def format_number(value: float) -> str:
    """A number as Go's `%v` prints it: an integer in full, a finite double as `format_float` does."""
    if type(value) is int:
        return str(value)
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    return format_float(value or 0.0)  # a negative zero has no sign here
