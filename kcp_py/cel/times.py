"""Timestamps and durations: text, parts and zones (cel-spec, "Timestamp and duration"; Go's `time` formats)."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from decimal import Decimal
from typing import Final

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.values import INT_MAX, INT_MIN, Duration, Timestamp
from kcp_py.golang.durations import SECOND, DurationError, parse_duration

__all__ = ["FIRST", "duration_of", "duration_text", "local", "new_duration", "new_timestamp", "timestamp_of", "timestamp_text"]

_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,}))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))", re.ASCII
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST: Final = -62_135_596_800 * SECOND
_LAST: Final = 253_402_300_800 * SECOND - 1
_ZONE_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})", re.ASCII)
_LONGEST: Final = 200


def new_duration(nanoseconds: int) -> Duration:
    """A duration within 64 bits.

    Raises:
        EvaluationError: it is longer.
    """
    if not INT_MIN <= nanoseconds <= INT_MAX:
        msg = "integer overflow"
        raise EvaluationError(msg)
    return Duration(nanoseconds)


def new_timestamp(nanoseconds: int) -> Timestamp:
    """A timestamp within the years 1 to 9999.

    Raises:
        EvaluationError: it is outside.
    """
    if not FIRST <= nanoseconds <= _LAST:
        msg = "timestamp overflow"
        raise EvaluationError(msg)
    return Timestamp(nanoseconds)


def duration_of(text: str) -> Duration | None:
    """The duration that Go's `time.ParseDuration` reads (`1h30m`, `-1.5s`); None where it refuses the text."""
    try:
        return Duration(parse_duration(text))
    except DurationError:
        return None


def duration_text(value: Duration) -> str:
    """Seconds with as many digits as a double needs, `5400s`, `0.001s` (cel-go `common/types/duration.go`)."""
    sign = "-" if value.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(value.nanoseconds), SECOND)
    text = f"{Decimal(repr(seconds + rest / 1e9)):f}" if rest else str(seconds)
    return f"{sign}{text}s"


def timestamp_of(text: str) -> Timestamp | None:
    """The point in time that RFC 3339 text names; None: it names none."""
    match = _TIMESTAMP.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // dt.timedelta(seconds=1)
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 23 or minutes > 59:
            return None
        offset = hours * 3600 + minutes * 60
        seconds += offset if match[8] == "-" else -offset
    nanoseconds = seconds * SECOND + int((match[7] or "0")[:9].ljust(9, "0"))
    return Timestamp(nanoseconds) if FIRST <= nanoseconds <= _LAST else None


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 in UTC with as many digits of the second as there are."""
    seconds, rest = divmod(value.nanoseconds, SECOND)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def local(value: Timestamp, zone: str = "UTC") -> dt.datetime:
    """The calendar and clock of a zone at a timestamp, to the second.

    Args:
        value: the timestamp.
        zone: an IANA name, or an offset `+01:30`, `-08:00`, `02:00`.

    Raises:
        EvaluationError: there is no such zone.
    """
    moment = _EPOCH + dt.timedelta(seconds=value.nanoseconds // SECOND)
    if zone in {"UTC", "", "Z"}:
        return moment
    match = _ZONE_OFFSET.fullmatch(zone)
    try:
        if match is not None:
            offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
            return moment.astimezone(dt.timezone(-offset if match[1] == "-" else offset))
        return moment.astimezone(_zone(zone))
    except (ValueError, OverflowError, zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        msg = f"unknown time zone {zone}"
        raise EvaluationError(msg) from error


def _zone(name: str) -> zoneinfo.ZoneInfo:
    """A zone of the database; a name with a path outside of the database is not a zone."""
    if name.startswith(("/", ".")) or ".." in name or "\0" in name or len(name) > _LONGEST:
        raise ValueError(name)
    return zoneinfo.ZoneInfo(name)
