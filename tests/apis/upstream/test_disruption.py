"""What budgets say about pods, and the conditions of both."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.upstream import disruption

NOW, BEFORE = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"


def pod(phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **metadata}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("one", "ignores", "pending"),
    [
        (pod(), False, False),
        (pod("Pending"), True, True),
        (pod("Failed"), True, False),
        (pod("Succeeded"), True, False),
        (pod(deletionTimestamp=NOW), True, False),
        (pod("Pending", deletionTimestamp=NOW), True, False),
        ({"metadata": {"name": "p"}}, False, False),
    ],
    ids=["running", "pending", "failed", "succeeded", "deleted", "pending and deleted", "without status"],
)
def test_pods_that_no_budget_protects(one: dict[str, Any], *, ignores: bool, pending: bool) -> None:
    """Those that do not run, or will not much longer."""
    assert (disruption.ignores_budgets(one), disruption.is_pending(one)) == (ignores, pending)


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Nonsense"}]}, False),
    ],
    ids=["none", "empty", "same", "other", "expression", "invalid"],
)
def test_the_pods_of_a_budget(selector: dict[str, Any] | None, *, selects: bool) -> None:
    """A budget without a selector has no pods, one with an empty selector all."""
    assert disruption.selects({"spec": {"selector": selector}}, pod(labels={"app": "a"})) is selects


def test_unhealthy_pods_may_go_while_enough_are_healthy() -> None:
    """Or always, where the budget says so."""
    assert disruption.allows_unhealthy({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    assert disruption.allows_unhealthy({"status": {"currentHealthy": 1, "desiredHealthy": 1}})
    assert not disruption.allows_unhealthy({"status": {"currentHealthy": 0, "desiredHealthy": 1}})
    assert not disruption.allows_unhealthy({"status": {"currentHealthy": 1, "desiredHealthy": 0}})
    assert not disruption.allows_unhealthy({})


def test_a_condition_has_the_time_of_its_last_change() -> None:
    """Of a condition that stays as it is, too, the other fields are written."""
    first = disruption.with_condition({"disruptionsAllowed": 1, "observedGeneration": 2}, BEFORE)
    assert disruption.condition_of(first) == {
        "type": "DisruptionAllowed",
        "status": "True",
        "reason": "SufficientPods",
        "message": "",
        "observedGeneration": 2,
        "lastTransitionTime": BEFORE,
    }
    same = disruption.with_condition({**first, "observedGeneration": 3}, NOW)
    assert (disruption.condition_of(same)["lastTransitionTime"], disruption.condition_of(same)["observedGeneration"]) == (BEFORE, 3)
    other = disruption.with_condition({**first, "disruptionsAllowed": 0}, NOW)
    assert (disruption.condition_of(other)["status"], disruption.condition_of(other)["lastTransitionTime"]) == ("False", NOW)


def test_the_conditions_of_pods_replace_those_of_their_type() -> None:
    """With the time of the last change."""
    wanted = {"type": "PodScheduled", "status": "True"}
    first = disruption.with_pod_condition({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}, wanted, BEFORE)
    assert first["phase"] == "Pending"
    assert [one["type"] for one in first["conditions"]] == ["Ready", "PodScheduled"]
    again = disruption.with_pod_condition(first, {**wanted, "reason": "Again"}, NOW)
    assert again["conditions"][1] == {**wanted, "reason": "Again", "lastProbeTime": None, "lastTransitionTime": BEFORE}
    assert disruption.with_pod_condition(again, {**wanted, "status": "False"}, NOW)["conditions"][1]["lastTransitionTime"] == NOW
