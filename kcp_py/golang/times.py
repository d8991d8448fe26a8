"""Times as Go's `time.Parse` reads them by the two layouts of the API, with its errors.

Slow, and exact: for texts that are not in the usual form.

Source: Go `time/format.go` (`parse`, `ParseError.Error`, `quote`).
"""

from __future__ import annotations

from datetime import date
from typing import Final, NamedTuple

RFC3339: Final = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"
"""Six digits of the second, no more and no less (apimachinery `metav1.RFC3339Micro`)."""

_LONGEST_QUOTED: Final = 1000
_YEAR: Final = "2006"
_HOUR: Final = "15"
_SECOND: Final = "05"
_ZONE: Final = "Z07:00"
_FRACTION: Final = ".000000"
_DATE_AND_TIME: Final = (("", _YEAR), ("-", "01"), ("-", "02"), ("T", _HOUR), (":", "04"), (":", _SECOND))
_LAYOUTS: Final = {
    RFC3339: (*_DATE_AND_TIME, ("", _ZONE)),
    RFC3339_MICRO: (*_DATE_AND_TIME, ("", _FRACTION), ("", _ZONE)),
}
_RANGES: Final = {"01": ("month", 1, 12), _HOUR: ("hour", 0, 23), "04": ("minute", 0, 59), _SECOND: ("second", 0, 59)}
_UNIX_EPOCH: Final = date(1970, 1, 1).toordinal()


class _BadError(Exception):
    """An element is not what the layout has there."""


class _RangeError(Exception):
    """An element has the right form and is out of range; the argument is its name."""


class _Element(NamedTuple):
    value: int
    rest: bytes
    nanoseconds: int = 0


def parse(text: str, layout: str) -> tuple[int, int]:
    """Read a time of the years 1 to 9999.

    Args:
        text: the time.
        layout: `RFC3339` or `RFC3339_MICRO`.

    Returns:
        Unix seconds, and the nanoseconds of the second.

    Raises:
        ValueError: it is not such a time; worded as Go words it, with long texts cut short.
    """
    rest = text.encode(errors="surrogatepass")
    found: dict[str, int] = {}
    nanoseconds = 0
    whole_seconds = layout == RFC3339
    for prefix, name in _LAYOUTS[layout]:
        if not rest.startswith(prefix.encode()):
            raise ValueError(_unreadable(text, layout, rest, prefix))
        held = rest = rest[len(prefix) :]
        try:
            found[name], rest, more = _element(name, rest, takes_fraction=whole_seconds)
        except _BadError:
            raise ValueError(_unreadable(text, layout, held, name)) from None
        except _RangeError as error:
            raise ValueError(f"parsing time {_quoted(text)}: {error} out of range") from None
        nanoseconds += more
    if rest:
        raise ValueError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    try:
        days = date(found[_YEAR], found["01"], found["02"]).toordinal() - _UNIX_EPOCH
    except ValueError:
        if found[_YEAR]:
            raise ValueError(f"parsing time {_quoted(text)}: day out of range") from None
        raise ValueError(f"parsing time {_quoted(text)}: year out of range") from None
    return days * 86400 + found[_HOUR] * 3600 + found["04"] * 60 + found[_SECOND] - found[_ZONE], nanoseconds


def _element(name: str, text: bytes, *, takes_fraction: bool) -> _Element:
    """Read one element at the start of a text."""
    if name == _YEAR:
        return _Element(_digits(text[:4], 4), text[4:])
    if name == _FRACTION:
        return _Element(0, text[len(_FRACTION) :], _fraction(text, len(_FRACTION)))
    if name == _ZONE:
        return _zone(text)
    # Hours alone may have one digit.
    width = 1 if name == _HOUR and text[:1].isdigit() and not text[1:2].isdigit() else 2
    element = _Element(_digits(text[:width], width), text[width:])
    _check_range(name, element.value)
    if name == _SECOND and takes_fraction and element.rest[:1] in {b".", b","} and element.rest[1:2].isdigit():
        length = 1 + len(element.rest[1:]) - len(element.rest[1:].lstrip(b"0123456789"))
        return element._replace(rest=element.rest[length:], nanoseconds=_fraction(element.rest, length))
    return element


def _digits(text: bytes, width: int) -> int:
    if len(text) != width or not text.isdigit():
        raise _BadError
    return int(text)


def _check_range(name: str, value: int) -> None:
    what, lowest, highest = _RANGES.get(name, ("", value, value))
    if not lowest <= value <= highest:
        raise _RangeError(what)


def _fraction(text: bytes, length: int) -> int:
    """Nanoseconds of a fraction with its point; digits beyond are cut off. As in Go it may have a sign; a minus is out of range."""
    digits = text[1 : min(length, 10)]
    if len(text) < length or text[:1] not in {b".", b","} or not digits[digits[:1] in {b"+", b"-"} :].isdigit():
        raise _BadError
    value = int(digits)
    if value < 0:
        raise _RangeError("fractional second")
    scale: int = 10 ** (9 - len(digits))
    return value * scale


def _zone(text: bytes) -> _Element:
    """Seconds east of UTC."""
    if text[:1] == b"Z":
        return _Element(0, text[1:])
    if len(text) < 6 or text[3:4] != b":":
        raise _BadError
    hours = minutes = 0
    bad = False
    try:
        hours = _digits(text[1:3], 2)
        minutes = _digits(text[4:6], 2)
    except _BadError:
        bad = True
    # An offset of 24 hours or of 60 minutes is in the range, and a wrong range counts before a wrong form.
    for value, most, what in ((minutes, 60, "time zone offset minute"), (hours, 24, "time zone offset hour")):
        if value > most:
            raise _RangeError(what)
    if bad or text[:1] not in {b"+", b"-"}:
        raise _BadError
    seconds = hours * 3600 + minutes * 60
    return _Element(seconds if text[:1] == b"+" else -seconds, text[6:])


def _unreadable(text: str, layout: str, rest: bytes, expected: str) -> str:
    return f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(rest)} as "{expected}"'


def _quoted(text: str | bytes) -> str:
    """In quotes, with characters other than printable ASCII as escaped bytes."""
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    long = len(raw) > _LONGEST_QUOTED
    written = "".join(_written(byte) for byte in raw[:_LONGEST_QUOTED])
    return f'"{written}{"..." if long else ""}"'


def _written(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if ord(" ") <= byte < 0x80 else f"\\x{byte:02x}"
