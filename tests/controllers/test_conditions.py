"""Conditions are put into a status as upstream's helpers do it."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.controllers.conditions import with_condition

EARLY, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
READY = {"type": "Ready", "status": "True", "reason": "Done", "message": "all of it"}
OTHER = {"type": "Other", "status": "False", "lastTransitionTime": EARLY}


@pytest.mark.parametrize(
    ("present", "since"),
    [
        pytest.param([], NOW, id="new"),
        pytest.param([READY | {"status": "False", "lastTransitionTime": EARLY}], NOW, id="another status"),
        pytest.param([READY | {"reason": "Almost", "lastTransitionTime": EARLY}], EARLY, id="another reason"),
        pytest.param([READY | {"message": "", "lastTransitionTime": EARLY}], EARLY, id="another message"),
        pytest.param([READY], NOW, id="without a time"),
    ],
)
def test_a_condition_is_set(present: list[dict[str, Any]], since: str) -> None:
    """In its place, with a new time where its status is new; other conditions and the rest of the status stay."""
    status = {"phase": "Active", "conditions": [*present, OTHER]}
    result = with_condition(status, READY, NOW)
    assert result is not None
    assert sorted(result.pop("conditions"), key=lambda one: str(one["type"])) == [OTHER, READY | {"lastTransitionTime": since}]
    assert result == {"phase": "Active"}
    assert status["conditions"] == [*present, OTHER]


def test_nothing_to_say() -> None:
    """A status that says so already is not written again."""
    assert with_condition({"conditions": [OTHER, READY | {"lastTransitionTime": EARLY}]}, READY, NOW) is None


def test_a_status_without_conditions() -> None:
    """They begin with this one."""
    assert with_condition({}, READY, NOW) == {"conditions": [READY | {"lastTransitionTime": NOW}]}
