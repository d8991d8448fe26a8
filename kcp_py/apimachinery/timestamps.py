"""RFC 3339 times of the API as text, and unix seconds: `metav1.Time` (whole seconds) and `metav1.MicroTime` (always six digits).

Source: k8s.io/apimachinery `pkg/apis/meta/v1` `time.go`, `micro_time.go`. The clock is the caller's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,30}))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_LAST_SECOND: Final = 253402300799
"""The end of the year 9999: no later time can be written."""
_FIRST_SECOND: Final = -62167219200 + 366 * 86400
"""The start of the year 1, the first that Python knows; Go's zero time."""
_DAY: Final = 86400


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
    """Unix seconds of an RFC 3339 time with any offset and any number of fractional digits.

    Raises:
        ValueError: not such a time; worded as Go's `time.Parse` begins its message.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(_parse_problem(text))
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        raise ValueError(_parse_problem(text)) from None
    unix = (moment.toordinal() - 719163) * _DAY + moment.hour * 3600 + moment.minute * 60 + moment.second
    if sign:
        hours, minutes = int(offset_hours), int(offset_minutes)
        if hours > 24 or minutes > 60:
            raise ValueError(_parse_problem(text))
        offset = hours * 3600 + minutes * 60
        unix += offset if sign == "-" else -offset
        if not _FIRST_SECOND <= unix <= _LAST_SECOND:
            raise ValueError(_parse_problem(text))
    # Beyond microseconds a float would round up to the next second.
    return unix + int(fraction[:6].ljust(6, "0")) / 1_000_000 if fraction else unix


def normalize_time(text: str) -> str:
    """A time as `metav1.Time` writes it after reading `text`: in UTC, whole seconds.

    Raises:
        ValueError: `text` is not an RFC 3339 time.
    """
    return format_time(parse_time(text))


def _parse_problem(text: str) -> str:
    quoted = text if len(text) <= 100 else text[:100] + "..."
    return f'parsing time "{quoted}" as "2006-01-02T15:04:05Z07:00": cannot parse "{quoted}"'
