"""Days in the labels of secrets with tokens."""

from __future__ import annotations

import pytest

from kcp_py.apis.core.tokensecrets import day_of, has_reference, seconds_of_day


@pytest.mark.parametrize(
    ("seconds", "day"),
    [
        (0.0, "1970-01-01"),
        (86_399.9, "1970-01-01"),
        (86_400.0, "1970-01-02"),
        (1_800_014_400.0, "2027-01-15"),
        (951_782_400.0, "2000-02-29"),
    ],
)
def test_days_are_those_of_utc(seconds: float, day: str) -> None:
    """A day begins at midnight."""
    assert day_of(seconds) == day
    assert seconds_of_day(day) == seconds // 86_400 * 86_400


@pytest.mark.parametrize("day", ["", "2027-1-5", "2027-02-30", "2027-01-15T00:00:00Z", " 2027-01-15", "tomorrow", None, 5])
def test_anything_else_is_no_day(day: object) -> None:
    """As Go's time.Parse has it with the layout 2006-01-02."""
    assert seconds_of_day(day) is None


def test_accounts_name_secrets() -> None:
    """By the list `secrets`, which may be missing."""
    account = {"secrets": [{"name": "one"}, {"namespace": "two"}], "imagePullSecrets": [{"name": "three"}]}
    assert [has_reference(account, name) for name in ("one", "two", "three")] == [True, False, False]
    assert not has_reference({}, "one")
    assert not has_reference({"secrets": None}, "one")
