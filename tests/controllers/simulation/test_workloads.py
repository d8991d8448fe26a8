"""The status of workloads whose pods are all ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcp_py.controllers.simulation.values import Object, revision_of
from kcp_py.controllers.simulation.workloads import (
    daemon_set_status,
    deployment_status,
    job_status,
    replica_set_status,
    stateful_set_status,
)

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
REVISION = f"web-{revision_of(TEMPLATE)}"
RULES: tuple[Callable[[Object, str], dict[str, Any]], ...] = (
    daemon_set_status,
    deployment_status,
    job_status,
    replica_set_status,
    stateful_set_status,
)


def workload(status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "generation": 3}, "spec": {"template": TEMPLATE, **spec}, "status": status}


def kinds(status: Object) -> dict[str, str]:
    """The conditions and their status."""
    return {one["type"]: one["status"] for one in status["conditions"]}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("replicas", [0, 1, 7])
def test_a_status_is_written_once(rule: Callable[[Object, str], dict[str, Any]], replicas: int) -> None:
    """The rule gives the same status for an object that has it, at any time."""
    obj = workload(replicas=replicas)
    obj["status"] = rule(obj, EARLY)
    assert rule(obj, LATE) == obj["status"]


def test_a_deployment_is_complete() -> None:
    """By the rules of `kubectl rollout status`; numbers that are 0 are left out."""
    status = deployment_status(workload(replicas=2, status={"unavailableReplicas": 2, "readyReplicas": 1}), EARLY)
    conditions = status.pop("conditions")
    assert status == {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    assert [(one["type"], one["reason"]) for one in conditions] == [
        ("Available", "MinimumReplicasAvailable"),
        ("Progressing", "NewReplicaSetAvailable"),
    ]
    assert conditions[1]["message"] == f'ReplicaSet "{REVISION}" has successfully progressed.'
    assert set(deployment_status(workload(replicas=0), EARLY)) == {"observedGeneration", "conditions"}


def test_a_paused_deployment_keeps_its_replicas() -> None:
    """It observes its specification."""
    status = deployment_status(workload(paused=True, replicas=5, status={"replicas": 2}), EARLY)
    assert (status["observedGeneration"], status["replicas"], kinds(status)) == (3, 2, {"Progressing": "Unknown"})


def test_replica_sets_have_all_replicas() -> None:
    """The number of replicas is written even if it is 0."""
    assert replica_set_status(workload(replicas=0, status={"readyReplicas": 3}), EARLY) == {"observedGeneration": 3, "replicas": 0}
    numbers = {"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    assert replica_set_status(workload(replicas=2), EARLY) == {"observedGeneration": 3, **numbers}


def test_a_stateful_set_is_updated() -> None:
    """All replicas have the revision of the template."""
    status = stateful_set_status(workload(replicas=2, status={"currentRevision": "web-old"}), EARLY)
    assert (status["currentRevision"], status["updateRevision"], status["updatedReplicas"]) == (REVISION, REVISION, 2)
    assert (status["readyReplicas"], status["availableReplicas"], status["observedGeneration"]) == (2, 2, 3)


def test_a_partition_keeps_replicas_at_their_revision() -> None:
    """Those with a smaller number than the partition. A new stateful set has one revision only."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    status = stateful_set_status(workload(replicas=3, updateStrategy=strategy, status={"currentRevision": "web-old"}), EARLY)
    assert (status["currentRevision"], status["currentReplicas"], status["updatedReplicas"]) == ("web-old", 2, 1)
    assert stateful_set_status(workload(replicas=3, updateStrategy=strategy), EARLY)["updatedReplicas"] == 3


def test_a_daemon_set_has_one_pod() -> None:
    """As in a cluster with one node."""
    status = daemon_set_status(workload(status={"numberUnavailable": 1}), EARLY)
    assert (status["desiredNumberScheduled"], status["updatedNumberScheduled"], status["numberReady"]) == (1, 1, 1)
    assert "numberUnavailable" not in status


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ({}, {"succeeded": 1}),
        ({"parallelism": 3}, {"succeeded": 3}),
        ({"completions": 4, "parallelism": 2}, {"succeeded": 4}),
        ({"completions": 0}, {}),
        ({"completions": 1, "completionMode": "Indexed"}, {"succeeded": 1, "completedIndexes": "0"}),
        ({"completions": 2, "completionMode": "Indexed"}, {"succeeded": 2, "completedIndexes": "0,1"}),
        ({"completions": 5, "completionMode": "Indexed"}, {"succeeded": 5, "completedIndexes": "0-4"}),
    ],
)
def test_a_job_completes(spec: dict[str, Any], numbers: dict[str, Any]) -> None:
    """With the number of pods that it asks for."""
    status = job_status(workload(**spec), EARLY)
    assert kinds(status) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert (status["startTime"], status["completionTime"]) == (EARLY, EARLY)
    assert {name: status[name] for name in ("succeeded", "completedIndexes") if name in status} == numbers


def test_a_suspended_job_waits() -> None:
    """It completes when it is resumed, and both conditions say so."""
    waiting = job_status(workload(suspend=True), EARLY)
    assert waiting.keys() == {"conditions"}
    assert kinds(waiting) == {"Suspended": "True"}
    assert kinds(job_status(workload(status=waiting), LATE)) == {"Suspended": "False", "SuccessCriteriaMet": "True", "Complete": "True"}


@pytest.mark.parametrize(
    "obj",
    [
        workload(status={"conditions": [{"type": "Failed", "status": "True"}]}),
        workload(status={"active": 1}, managedBy="example.com/queue"),
    ],
    ids=["failed", "of another controller"],
)
def test_other_jobs_are_left_alone(obj: dict[str, Any]) -> None:
    """Their status stays."""
    assert job_status(obj, EARLY) == obj["status"]
