"""RFC 3339 times of the API as text, and unix seconds: `metav1.Time` (whole seconds) and `metav1.MicroTime` (always six digits).

Source: k8s.io/apimachinery `pkg/apis/meta/v1` `time.go`, `micro_time.go`. The clock is the caller's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from kcp_py.golang import times as go_times
from kcp_py.golang.times import RFC3339, RFC3339_MICRO

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](?P<fraction>\d{1,30}))?(?:Z|(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>\d\d))",
    re.ASCII,
)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T", re.ASCII)
_USUAL_LENGTH: Final = len("2026-01-01T00:00:00Z")
_SIXTY: Final = {f"{number:02}": number for number in range(60)}
_LAST_SECOND: Final = 253402300799
"""The end of the year 9999: no later time can be written."""
_FIRST_SECOND: Final = -62167219200 + 366 * 86400
"""The start of the year 1, the first that Python knows; Go's zero time."""
_DAY: Final = 86400
_MICRO_DIGITS: Final = 6


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


def format_time(unix: float) -> str:
    """Unix seconds as `metav1.Time` writes them: `2026-01-01T00:00:00Z`, fractions cut off."""
    return _format_second(int(unix // 1))


def format_micro_time(unix: float) -> str:
    """Unix seconds as `metav1.MicroTime` writes them: `2026-01-01T00:00:00.000000Z`."""
    second, micros = divmod(round(unix * 1_000_000), 1_000_000)
    return f"{_format_second(second)[:-1]}.{micros:06d}Z"


def parse_time(text: str) -> float:
    """Unix seconds of a time as `metav1.Time` reads it: RFC 3339 with any offset and any number of fractional digits.

    Raises:
        ValueError: not such a time; worded as by Go's `time.Parse`.
    """
    if len(text) == _USUAL_LENGTH and text[13] == text[16] == ":" and text[19] == "Z":
        hour, minute, second = _SIXTY.get(text[11:13]), _SIXTY.get(text[14:16]), _SIXTY.get(text[17:19])
        if hour is not None and hour < 24 and minute is not None and second is not None and (day := _start_of_day(text[:11])) is not None:
            return day + hour * 3600 + minute * 60 + second
    seconds, micros = _parts(text, RFC3339)
    # Beyond microseconds a float would round up to the next second.
    return seconds + micros / 1_000_000 if micros else seconds


@lru_cache(maxsize=256)
def _start_of_day(date: str) -> int | None:
    """Unix seconds of the start of a day, such as `2026-01-01T`; None for another text."""
    match = _DATE.fullmatch(date)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    try:
        return (datetime(year, month, day, tzinfo=UTC).toordinal() - 719163) * _DAY
    except ValueError:
        return None


def normalize_time(text: str) -> str:
    """A time as `metav1.Time` writes it after reading `text`: in UTC, whole seconds.

    Raises:
        ValueError: `text` is not an RFC 3339 time.
    """
    return format_time(_parts(text, RFC3339)[0])


def normalize_micro_time(text: str) -> str:
    """A time as `metav1.MicroTime` writes it after reading `text`: in UTC, with six digits of the second, which `text` must have, too.

    Raises:
        ValueError: `text` is not such a time; worded as by Go's `time.Parse`.
    """
    seconds, micros = _parts(text, RFC3339_MICRO)
    return f"{_format_second(seconds)[:-1]}.{micros:06d}Z"


def _parts(text: str, layout: str) -> tuple[int, int]:
    """Unix seconds, and the microseconds of the second."""
    match = _RFC3339.fullmatch(text)
    fraction = match["fraction"] if match is not None else None
    if match is None or (layout == RFC3339_MICRO and len(fraction or "") != _MICRO_DIGITS):
        return _slowly(text, layout)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return _slowly(text, layout)
    unix = (moment.toordinal() - 719163) * _DAY + hour * 3600 + minute * 60 + second
    if match["sign"]:
        hours, minutes = int(match["hours"]), int(match["minutes"])
        if hours > 24 or minutes > 60:
            return _slowly(text, layout)
        offset = hours * 3600 + minutes * 60
        unix += offset if match["sign"] == "-" else -offset
        _check(text, unix)
    return unix, int(fraction[:_MICRO_DIGITS].ljust(_MICRO_DIGITS, "0")) if fraction else 0


def _slowly(text: str, layout: str) -> tuple[int, int]:
    """The parts of a text that is not in the usual form."""
    seconds, nanoseconds = go_times.parse(text, layout)
    _check(text, seconds)
    return seconds, nanoseconds // 1000


def _check(text: str, unix: int) -> None:
    if not _FIRST_SECOND <= unix <= _LAST_SECOND:
        raise ValueError(f'parsing time "{text}": year out of range')
