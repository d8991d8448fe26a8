"""Durations as Go reads and prints them: `1h30m`, `-1.5s`, `500ms`, `0`.

Source: Go `time/format.go` (`ParseDuration`) and `time/time.go` (`Duration.String`).
"""

from __future__ import annotations

import re
from typing import Final

from kcp_py.golang.quoting import go_quote

__all__ = ["SECOND", "DurationError", "DurationTooLongError", "format_duration", "parse_duration"]

SECOND: Final = 1_000_000_000
"""Nanoseconds."""

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_NUMBER: Final = re.compile(r"[0-9.]+")
_LONGEST: Final = 200
"""Characters. Python refuses to read longer numbers, and no duration within 64 bits needs them."""
_MIN: Final = -(2**63)
_MAX: Final = 2**63 - 1


class DurationError(ValueError):
    """A text that is not a duration, worded as Go words it."""


class DurationTooLongError(DurationError):
    """A duration of more than 64 bits of nanoseconds, which are 292 years.

    Attributes:
        nanoseconds: the duration; None for a text that is too long to be read.
    """

    def __init__(self, message: str, nanoseconds: int | None) -> None:
        super().__init__(message)
        self.nanoseconds = nanoseconds


def parse_duration(text: str) -> int:
    """The nanoseconds of a duration; digits beyond are cut off.

    Raises:
        DurationError: it is not a duration.
        DurationTooLongError: it does not fit in 64 bits.
    """
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest:
        raise _invalid(text)
    total = 0
    position = 0
    too_long = len(rest) > _LONGEST
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match[1] or match[2]):
            raise _invalid(text, rest[position:])
        if not too_long:
            unit = _UNITS[match[3]]
            total += int(match[1] or "0") * unit
            if match[2]:
                total += int(match[2]) * unit // 10 ** len(match[2])
        position = match.end()
    total = -total if text[0] == "-" else total
    if too_long or not _MIN <= total <= _MAX:
        raise DurationTooLongError(str(_invalid(text)), None if too_long else total)
    return total


def format_duration(nanoseconds: int) -> str:
    """A duration as Go prints it: `1m0s`, `1.5s`, `100ms`."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest == 0:
        return "0s"
    if rest < SECOND:
        unit = next(unit for unit in ("ms", "\u00b5s", "ns") if rest >= _UNITS[unit])
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    hours, rest = divmod(rest, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    seconds = f"{_decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def _invalid(text: str, rest: str = "") -> DurationError:
    """The error for a text, of which `rest` is what could not be read."""
    problem = "missing unit in duration" if _NUMBER.fullmatch(rest) else "invalid duration"
    return DurationError(f"time: {problem} {go_quote(text)}")
