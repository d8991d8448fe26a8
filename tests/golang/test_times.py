"""Times as Go reads them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.golang.times import RFC3339, RFC3339_MICRO, parse


@pytest.mark.parametrize(
    ("text", "layout", "expected"),
    [
        ("1970-01-01T00:00:01Z", RFC3339, (1, 0)),
        ("1970-01-01T00:00:01.5Z", RFC3339, (1, 500_000_000)),
        ("1970-01-01T00:00:01,123456789999Z", RFC3339, (1, 123_456_789)),
        ("1970-01-01T1:00:00Z", RFC3339, (3600, 0)),
        ("1970-01-01T00:00:00+24:60", RFC3339, (-90000, 0)),
        ("1970-01-01T00:00:00-00:01", RFC3339, (60, 0)),
        ("1970-01-01T00:00:00.000001Z", RFC3339_MICRO, (0, 1000)),
        ("1970-01-01T00:00:00.+12345Z", RFC3339_MICRO, (0, 12_345_000)),
    ],
)
def test_times_that_go_reads(text: str, layout: str, expected: tuple[int, int]) -> None:
    """Unix seconds and nanoseconds, with what Go takes beyond RFC 3339."""
    assert parse(text, layout) == expected


@pytest.mark.parametrize(
    ("text", "layout", "problem"),
    [
        ("", RFC3339, f' as "{RFC3339}": cannot parse "" as "2006"'),
        ("x", RFC3339, f' as "{RFC3339}": cannot parse "x" as "2006"'),
        ("2024/01/01", RFC3339, f' as "{RFC3339}": cannot parse "/01/01" as "-"'),
        ("2024-1-01T00:00:00Z", RFC3339, f' as "{RFC3339}": cannot parse "1-01T00:00:00Z" as "01"'),
        ("2024-01-01 00:00:00Z", RFC3339, f' as "{RFC3339}": cannot parse " 00:00:00Z" as "T"'),
        ("2024-01-01T00:00:00", RFC3339, f' as "{RFC3339}": cannot parse "" as "Z07:00"'),
        ("2024-01-01T00:00:00+0200", RFC3339, f' as "{RFC3339}": cannot parse "+0200" as "Z07:00"'),
        ("2024-01-01T00:00:00Zx", RFC3339, ': extra text: "x"'),
        ("2024-13-01T00:00:00Z", RFC3339, ": month out of range"),
        ("2023-02-29T00:00:00Z", RFC3339, ": day out of range"),
        ("2024-01-01T00:60:00Z", RFC3339, ": minute out of range"),
        ("2024-01-01T00:00:60Z", RFC3339, ": second out of range"),
        ("2024-01-01T00:00:00+25:00", RFC3339, ": time zone offset hour out of range"),
        ("2024-01-01T00:00:00*25:61", RFC3339, ": time zone offset minute out of range"),
        ("2024-01-01T00:00:00.-12345Z", RFC3339_MICRO, ": fractional second out of range"),
        ("2024-01-01T00:00:00Z", RFC3339_MICRO, f' as "{RFC3339_MICRO}": cannot parse "Z" as ".000000"'),
    ],
)
def test_times_that_go_refuses(text: str, layout: str, problem: str) -> None:
    """The message names the element at which Go stops."""
    with pytest.raises(ValueError, match="parsing time") as caught:
        parse(text, layout)
    assert str(caught.value) == f'parsing time "{text}"{problem}'


def test_what_is_not_printable_is_escaped() -> None:
    """The message is ASCII: quotes have backslashes, other characters are shown as bytes."""
    with pytest.raises(ValueError, match="parsing time") as caught:
        parse('"é\n', RFC3339)
    assert str(caught.value) == f'parsing time "\\"\\xc3\\xa9\\x0a" as "{RFC3339}": cannot parse "\\"\\xc3\\xa9\\x0a" as "2006"'


def test_long_texts_are_cut_short() -> None:
    """A message does not repeat a text of any size."""
    with pytest.raises(ValueError, match="parsing time") as caught:
        parse("x" * 1_000_000, RFC3339)
    assert len(str(caught.value)) < 2200


@given(st.text(max_size=40), st.sampled_from([RFC3339, RFC3339_MICRO]))
def test_any_text_raises_nothing_else(text: str, layout: str) -> None:
    """The parser raises ValueError alone."""
    with contextlib.suppress(ValueError):
        parse(text, layout)
