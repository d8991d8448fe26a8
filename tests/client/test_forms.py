"""Texts of values that JSON does not have, and names in camelCase."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kcp_py.client.forms import camel_case, from_duration, to_base64, to_duration


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("replica_count", "replicaCount"),
        ("replicaCount", "replicaCount"),
        ("x", "x"),
        ("from_", "from"),
        ("_private_name", "privateName"),
        ("ipv4_address", "ipv4Address"),
        ("a__b", "aB"),
        ("http_2_port", "http2Port"),
        ("__", ""),
    ],
)
def test_camel_case(name: str, expected: str) -> None:
    """Each underscore is replaced by a capital letter, and those at the ends are removed."""
    assert camel_case(name) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(hours=1, minutes=30), "1h30m0s"),
        (timedelta(days=2), "48h0m0s"),
        (timedelta(milliseconds=1500), "1.5s"),
        (timedelta(microseconds=-1), "-1\u00b5s"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_durations(value: timedelta, text: str) -> None:
    """A timedelta is what Go prints, and is read again."""
    assert to_duration(value) == text
    assert from_duration(text) == value


def test_durations_of_other_precision() -> None:
    """Parts of a microsecond are cut off towards zero, as by Go; what Go cannot read is not written."""
    assert from_duration("1999ns") == from_duration("+1us") == timedelta(microseconds=1)
    assert from_duration("-1999ns") == timedelta(microseconds=-1)
    longest = timedelta(microseconds=(2**63 - 1) // 1000)
    assert from_duration(to_duration(longest)) == longest
    with pytest.raises(ValueError, match=r"longer than 292 years"):
        to_duration(longest + timedelta(microseconds=1))
    with pytest.raises(ValueError, match=r'time: missing unit in duration "90"'):
        from_duration("90")


def test_base64() -> None:
    """The alphabet is the standard one, with padding."""
    assert to_base64(b"\xfb\xff\xfe!") == "+//+IQ=="
    assert to_base64(b"") == ""
