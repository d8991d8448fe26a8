"""Times as the API writes them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta import timestamps


def test_seconds_and_micros():
    """Time has whole seconds, MicroTime always six digits."""
    assert timestamps.format_time(1767225600.9) == "2026-01-01T00:00:00Z"
    assert timestamps.format_micro_time(1767225600.25) == "2026-01-01T00:00:00.250000Z"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T01:30:00+01:30", "2026-01-01T00:00:00Z"),
        ("2025-12-31T23:00:00.999999999-01:00", "2026-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_read_in_any_offset(text, normal):
    """Times are written in UTC."""
    assert timestamps.normalize_time(text) == normal


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-01", "2026-01-01 00:00:00Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
     "2026-01-01T00:00:00", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2026-01-01T00:00:00Z\n", "٢026-01-01T00:00:00Z"],
)  # fmt: skip
def test_other_texts_are_refused(text):
    """A text that is not an RFC 3339 time raises ValueError."""
    with pytest.raises(ValueError, match="parsing time"):
        timestamps.parse_time(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-01-01T00:00:00.120000Z", "2026-01-01T00:00:00.120000Z"),
        ("2026-01-01T01:30:00.000001+01:30", "2026-01-01T00:00:00.000001Z"),
        ("2026-01-01T1:00:00.999999Z", "2026-01-01T01:00:00.999999Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_micro_times_are_read_exactly(text, normal):
    """Times are written in UTC, with the same digits however far away they are."""
    assert timestamps.normalize_micro_time(text) == normal


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.1234567Z"])
def test_micro_times_have_six_digits(text):
    """Fewer or more are refused, as Go refuses them."""
    with pytest.raises(ValueError, match="cannot parse"):
        timestamps.normalize_micro_time(text)


@given(st.integers(min_value=-62135596800, max_value=253402300799))
def test_round_trip(second):
    """Every second of the years 1 to 9999 comes back."""
    text = timestamps.format_time(second)
    assert len(text) == 20
    assert timestamps.parse_time(text) == second


@given(st.text(max_size=40))
def test_any_text_raises_nothing_else(text):
    """The parser raises ValueError alone."""
    with contextlib.suppress(ValueError):
        timestamps.parse_time(text)
