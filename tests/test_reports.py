"""Short reports of tests that passed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.reports import from_serializable, to_serializable

NODE = "tests/test_a.py::test_a"


def report(**changed: Any) -> pytest.TestReport:
    """A report of a phase that passed, with changes."""
    values = {"outcome": "passed", "longrepr": None, "when": "call", "duration": 0.5, "start": 1.0, "stop": 1.5} | changed
    return pytest.TestReport(nodeid=NODE, location=("tests/test_a.py", 3, "test_a"), keywords={"test_a": 1}, **values)


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_what_is_shown_of_a_test_that_passed_arrives(when: str) -> None:
    """The name, the phase and the times are those of the report that was sent."""
    sent = to_serializable(report(when=when))
    assert sent is not None
    assert "keywords" not in sent
    received = from_serializable(json.loads(json.dumps(sent)))
    assert received is not None
    assert (received.nodeid, received.when, received.outcome, received.longrepr) == (NODE, when, "passed", None)
    assert (received.duration, received.start, received.stop) == (0.5, 1.0, 1.5)
    assert tuple(received.location) == ("tests/test_a.py", 3, "test_a")


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": "failed", "longrepr": "an error"},
        {"outcome": "skipped", "longrepr": ("tests/test_a.py", 3, "no reason")},
        {"sections": [("Captured stdout call", "text")]},
        {"user_properties": [("name", "value")]},
        {"wasxfail": "a reason"},
    ],
    ids=lambda changed: next(iter(changed)) + str(changed.get("outcome", "")),
)
def test_other_reports_are_left_to_pytest(changed: dict[str, Any]) -> None:
    """Failures, skips, output and expected failures are sent whole."""
    assert to_serializable(report(**changed)) is None


def test_reports_of_modules_are_left_to_pytest() -> None:
    """Errors of the collection are sent whole."""
    assert to_serializable(pytest.CollectReport(nodeid="tests/test_a.py", outcome="passed", longrepr=None, result=[])) is None
    assert from_serializable({"$report_type": "TestReport"}) is None
