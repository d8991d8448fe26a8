"""The status of pods that run, as a kubelet writes it, without a node.

Source: kubernetes `pkg/kubelet/status` and `pkg/kubelet/kubelet_pods.go`.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.controllers.simulation.values import Object, address, condition, merged_conditions

_PODS: Final = "10.244.0.0/16"
_HOST: Final = "192.0.2.1"
"""An address for documentation (RFC 5737)."""
_READY: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_status(obj: Object, now: str) -> dict[str, Any]:
    """The next status of a pod: from Pending it runs, and from Running it succeeds if its containers are not started again."""
    spec, status = obj["spec"], obj.get("status") or {}
    phase = status.get("phase") or "Pending"
    if phase == "Pending" and not spec.get("schedulingGates"):
        return _running(obj, status, now)
    if phase == "Running" and spec.get("restartPolicy") in {"Never", "OnFailure"}:
        return _succeeded(status, now)
    return dict(status)


def _running(obj: Object, status: Object, now: str) -> dict[str, Any]:
    spec, uid = obj["spec"], obj["metadata"]["uid"]
    running = {"state": {"running": {"startedAt": now}}, "ready": True, "started": True}
    completed = {"state": {"terminated": _terminated(now, now)}, "ready": True, "started": False}
    ip = _HOST if spec.get("hostNetwork") else address(uid, _PODS)
    found = {
        **status,
        "phase": "Running",
        "hostIP": _HOST,
        "hostIPs": [{"ip": _HOST}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": status.get("startTime") or now,
        "conditions": merged_conditions(status, [condition(kind) for kind in _READY], now),
        "containerStatuses": [_container(one, running) for one in spec.get("containers") or ()],
    }
    if initial := spec.get("initContainers"):
        found["initContainerStatuses"] = [
            _container(one, running if one.get("restartPolicy") == "Always" else completed) for one in initial
        ]
    return found


def _succeeded(status: Object, now: str) -> dict[str, Any]:
    wanted = [
        condition("PodReadyToStartContainers", "False"),
        condition("Initialized", "True", "PodCompleted"),
        condition("Ready", "False", "PodCompleted"),
        condition("ContainersReady", "False", "PodCompleted"),
    ]
    found = {**status, "phase": "Succeeded", "conditions": merged_conditions(status, wanted, now)}
    for name in ("containerStatuses", "initContainerStatuses"):
        if containers := status.get(name):
            found[name] = [_ended(one, now) for one in containers]
    return found


def _container(container: Object, state: Object) -> dict[str, Any]:
    """The status of a container; images have no digest, as nothing was pulled."""
    return {"name": container["name"], "image": container.get("image", ""), "imageID": "", "restartCount": 0, "lastState": {}, **state}


def _ended(container: Object, now: str) -> dict[str, Any]:
    running = (container.get("state") or {}).get("running")
    if running is None:
        return dict(container)
    return {**container, "state": {"terminated": _terminated(running.get("startedAt") or now, now)}, "ready": False, "started": False}


def _terminated(started: str, ended: str) -> dict[str, Any]:
    return {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": ended}
