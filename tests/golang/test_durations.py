"""Durations as Go reads them."""

from __future__ import annotations

import pytest

from kcp_py.golang.durations import SECOND, DurationTooLongError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("500ms", 0.5), ("10us", 1e-5), ("10µs", 1e-5), ("1ns", 1e-9), ("0", 0), ("-5s", -5),
     ("+5s", 5), (".5s", 0.5), ("5.s", 5)],
)  # fmt: skip
def test_duration(text, seconds):
    """Durations are Go's."""
    assert parse_duration(text) / SECOND == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [("invalid", 'time: invalid duration "invalid"'), ("30", 'time: missing unit in duration "30"'), ("", 'time: invalid duration ""'),
     ("s", 'time: invalid duration "s"'), ("1s x", 'time: invalid duration "1s x"'), ("1e3s", 'time: invalid duration "1e3s"'),
     ("--1s", 'time: invalid duration "--1s"'), ("1S", 'time: invalid duration "1S"'), ("٣s", 'time: invalid duration "٣s"'),
     ("9" * 400, "time: missing unit in duration")],
)  # fmt: skip
def test_no_duration(text, message):
    """Anything else is refused, in Go's words where it has them."""
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["9223372036854775808ns", "-9223372036854775809ns", "9" * 400 + "h", "1s" * 1000])
def test_durations_of_more_than_64_bits_are_refused(text):
    """Go's durations are 64 bits of nanoseconds; texts that are longer than any of them are not read."""
    with pytest.raises(DurationTooLongError, match="time: invalid duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0s"), (1, "1ns"), (1_100, "1.1µs"), (2_200_000, "2.2ms"), (SECOND, "1s"), (90 * SECOND, "1m30s"), (60 * SECOND, "1m0s"),
     (3600 * SECOND, "1h0m0s"), (SECOND + 500_000_000, "1.5s"), (-30 * SECOND, "-30s"), (3661 * SECOND + 1, "1h1m1.000000001s")],
)  # fmt: skip
def test_durations_are_printed(nanoseconds, text):
    """The text is that of Go, and reads as the same duration."""
    assert format_duration(nanoseconds) == text
    assert parse_duration(text) == nanoseconds


def test_digits_below_a_nanosecond_are_cut_off():
    """Fractions are exact down to the nanosecond."""
    assert parse_duration("1.2345678909s") == 1_234_567_890
    assert parse_duration("-0.5ns") == 0
    assert parse_duration("9223372036.854775807s") == 9_223_372_036 * SECOND + 854_775_807


def test_a_duration_beyond_64_bits_has_its_length() -> None:
    """The error carries the nanoseconds for callers that allow longer durations; text beyond 200 characters is not read."""
    with pytest.raises(DurationTooLongError) as caught:
        parse_duration("9999999999h")
    assert caught.value.nanoseconds == 9_999_999_999 * 3600 * SECOND
    with pytest.raises(DurationTooLongError) as caught:
        parse_duration("9" * 201 + "h")
    assert caught.value.nanoseconds is None
