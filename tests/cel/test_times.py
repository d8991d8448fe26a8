"""Timestamps and durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.times import (
    FIRST,
    duration_of,
    duration_text,
    local,
    new_duration,
    new_timestamp,
    timestamp_of,
    timestamp_text,
)
from kcp_py.cel.values import INT_MAX, Duration, Timestamp
from kcp_py.golang.durations import SECOND


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1h30m", 5400 * SECOND),
        ("-1.5s", -1_500_000_000),
        ("+1us", 1000),
        ("1\u00b5s", 1000),
        (".5s", 500_000_000),
        ("1.s", SECOND),
        ("9223372036854775807ns", INT_MAX),
        ("9223372036854775808ns", None),
        ("", None),
        ("-", None),
        ("1", None),
        ("s", None),
        (".s", None),
        ("1d", None),
        ("1s ", None),
        ("\u0661s", None),
        ("1s" * 1000, None),
    ],
)
def test_durations(text: str, nanoseconds: int | None) -> None:
    """What Go's `time.ParseDuration` reads."""
    assert duration_of(text) == (None if nanoseconds is None else Duration(nanoseconds))


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0s"), (5400 * SECOND, "5400s"), (10**6, "0.001s"), (-1, "-0.000000001s"), (123456789_123456789, "123456789.12345679s")],
)
def test_duration_text(nanoseconds: int, text: str) -> None:
    """Seconds, as a double is written."""
    assert duration_text(Duration(nanoseconds)) == text


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.123456789123Z", 123_456_789),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("0001-01-01T00:00:00Z", FIRST),
        ("0001-01-01T00:00:00+00:01", None),
        ("0000-01-01T00:00:00Z", None),
        ("2021-02-29T00:00:00Z", None),
        ("1970-01-01T24:00:00Z", None),
        ("1970-01-01T00:00:60Z", None),
        ("1970-01-01T00:00:00", None),
        ("1970-01-01 00:00:00Z", None),
        ("1970-01-01T00:00:00+24:00", None),
        ("1970-01-01t00:00:00z", None),
        ("1970-01-01T00:00:00." + "0" * 1000 + "Z", None),
    ],
)
def test_timestamps(text: str, nanoseconds: int | None) -> None:
    """RFC 3339 within the years 1 to 9999."""
    assert timestamp_of(text) == (None if nanoseconds is None else Timestamp(nanoseconds))


@given(st.integers(FIRST, 253_402_300_800 * SECOND - 1))
def test_timestamps_survive_being_written(nanoseconds: int) -> None:
    """Written times are read again."""
    assert timestamp_of(timestamp_text(Timestamp(nanoseconds))) == Timestamp(nanoseconds)


@pytest.mark.parametrize(
    ("zone", "clock"),
    [
        ("UTC", "1970-01-01 12:00"),
        ("", "1970-01-01 12:00"),
        ("Europe/Berlin", "1970-01-01 13:00"),
        ("+05:30", "1970-01-01 17:30"),
        ("-08:00", "1970-01-01 04:00"),
        ("02:00", "1970-01-01 14:00"),
    ],
)
def test_zones(zone: str, clock: str) -> None:
    """Names of the database and offsets."""
    assert f"{local(Timestamp(43_200 * SECOND), zone):%Y-%m-%d %H:%M}" == clock


@pytest.mark.parametrize(
    "zone", ["Nowhere", "/etc/passwd", "../../etc/passwd", "a\0b", "25:99x", "+99:00", "Europe", "\ud800", "x" * 10_000]
)
def test_unknown_zones(zone: str) -> None:
    """Nothing but the database is looked into."""
    with pytest.raises(EvaluationError, match="unknown time zone"):
        local(Timestamp(0), zone)


def test_first_and_last_year_in_zones() -> None:
    """A clock that would leave the calendar is an error."""
    with pytest.raises(EvaluationError):
        local(Timestamp(FIRST), "-08:00")


def test_ranges() -> None:
    """Beyond 64 bits, or the years, there is nothing."""
    with pytest.raises(EvaluationError, match="integer overflow"):
        new_duration(INT_MAX + 1)
    with pytest.raises(EvaluationError, match="timestamp overflow"):
        new_timestamp(FIRST - 1)
