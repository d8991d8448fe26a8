"""Schedules of cron jobs."""

from __future__ import annotations

import pytest

from kcp_py.apis.upstream.validation.cron import schedule_problem


@pytest.mark.parametrize(
    "schedule", ["* * * * *", "*/5 0-6 1,15 jan-dec mon", "@daily", "@every 5m", "TZ=UTC 0 0 * * *", "? ? ? ? ?", "1/2 * * * SUN"]
)
def test_valid_schedules(schedule: str) -> None:
    """Values, ranges, steps, names and descriptors."""
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(("schedule", "problem"), [
    ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    ("60 * * * *", "end of range (60) above maximum (59): 60"),
    ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
    ("*/0 * * * *", "step of range should be a positive number: */0"),
    ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ("@never", "unrecognized descriptor: @never"),
])  # fmt: skip
def test_invalid_schedules(schedule: str, problem: str) -> None:
    """Each problem has the words of the library that upstream uses."""
    assert schedule_problem(schedule) == problem
