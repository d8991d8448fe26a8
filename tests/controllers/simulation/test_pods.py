"""The status of pods without a node."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.controllers.simulation.pods import pod_status

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def pod(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}, "status": status}


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_pod_runs() -> None:
    """With all conditions, its containers and its addresses; what the server has written stays. Then nothing more happens."""
    status = pod_status(pod({"phase": "Pending", "qosClass": "BestEffort"}), EARLY)
    assert (status["phase"], status["qosClass"], status["startTime"]) == ("Running", "BestEffort", EARLY)
    assert set(conditions(status).values()) == {"True"}
    assert {"Ready", "ContainersReady", "Initialized", "PodScheduled"} < conditions(status).keys()
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    (container,) = status["containerStatuses"]
    assert (container["name"], container["image"], container["ready"]) == ("c", "i", True)
    assert container["state"] == {"running": {"startedAt": EARLY}}
    assert pod_status(pod(status), LATE) == status


def test_initial_containers_have_ended() -> None:
    """Sidecars have not. A pod in the network of its host has the address of the host."""
    initial = [{"name": "once", "image": "i"}, {"name": "sidecar", "image": "i", "restartPolicy": "Always"}]
    status = pod_status(pod(initContainers=initial, hostNetwork=True), EARLY)
    once, sidecar = status["initContainerStatuses"]
    assert once["state"]["terminated"]["exitCode"] == 0
    assert "running" in sidecar["state"]
    assert status["podIP"] == status["hostIP"]


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_is_not_started_again_succeeds(policy: str) -> None:
    """After it has run, with the times of its containers."""
    initial = [{"name": "once", "image": "i"}]
    running = pod_status(pod(restartPolicy=policy, initContainers=initial), EARLY)
    status = pod_status(pod(running, restartPolicy=policy), LATE)
    assert status["phase"] == "Succeeded"
    assert (conditions(status)["Ready"], conditions(status)["PodScheduled"]) == ("False", "True")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["startedAt"], ended["finishedAt"], ended["exitCode"]) == (EARLY, LATE, 0)
    assert status["initContainerStatuses"] == running["initContainerStatuses"]
    assert pod_status(pod(status, restartPolicy=policy), LATE) == status


@pytest.mark.parametrize(
    "obj",
    [pod({"phase": "Pending"}, schedulingGates=[{"name": "g"}]), pod({"phase": "Failed"}), pod({"phase": "Running", "podIP": "10.1.1.1"})],
    ids=["gated", "failed", "run by others"],
)
def test_other_pods_are_left_alone(obj: dict[str, Any]) -> None:
    """Their status stays."""
    assert pod_status(obj, EARLY) == obj["status"]
