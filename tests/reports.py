"""How the processes of pytest-xdist report tests that passed: with the values that are shown.

pytest's own form repeats all names of the test, its marks and its folders for each of its three phases. To write and read that takes more
time than most tests.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

PASSED: Final = "$passed"


def to_serializable(report: pytest.CollectReport | pytest.TestReport) -> dict[str, Any] | None:
    """A short form of a report; None for one that says more than that a phase of a test passed."""
    if (
        not isinstance(report, pytest.TestReport)
        or not report.passed
        or report.longrepr is not None
        or report.sections
        or report.user_properties
        or hasattr(report, "wasxfail")
    ):
        return None
    return {
        PASSED: report.when,
        "nodeid": report.nodeid,
        "location": report.location,
        "duration": report.duration,
        "start": report.start,
        "stop": report.stop,
    }


def from_serializable(data: dict[str, Any]) -> pytest.TestReport | None:
    """The report of a short form; None for one of another form."""
    if PASSED not in data:
        return None
    return pytest.TestReport(
        nodeid=data["nodeid"],
        location=data["location"],
        keywords={},
        outcome="passed",
        longrepr=None,
        when=data[PASSED],
        duration=data["duration"],
        start=data["start"],
        stop=data["stop"],
    )
