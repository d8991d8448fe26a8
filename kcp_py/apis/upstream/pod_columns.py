"""What `kubectl get pods` shows: the state of a pod in a word, worked out from all of its containers.

Source: kubernetes `pkg/printers/internalversion/printers.go` (`printPod`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.meta.table import AGE, NAME, Column, LastingCell, Since, since
from kcp_py.apis.typed.cells import NONE, Object, at, field, integer, lasting, list_at, object_at, objects_at, text


class _State(NamedTuple):
    ready: int
    containers: int
    reason: str
    restarts: int
    last_restart: str
    """RFC 3339; empty where nothing was restarted."""


def pod_columns() -> Sequence[Column]:
    """The columns of pods."""
    return (
        NAME,
        Column("Ready", "string", "", "The aggregate readiness state of this pod for accepting traffic.", 0, _of_state(_ready)),
        Column("Status", "string", "", "The aggregate status of the containers in this pod.", 0, _of_state(_reason)),
        Column("Restarts", "string", "", _RESTARTS, 0, _of_state(_restarts)),
        AGE,
        Column("IP", "string", "", "IP address allocated to the pod.", 1, lasting(_address, ("status",))),
        Column("Node", "string", "", "The node on which this pod is scheduled.", 1, field("spec", "nodeName", none=NONE)),
        Column("Nominated Node", "string", "", _NOMINATED, 1, field("status", "nominatedNodeName", none=NONE)),
        Column(
            "Readiness Gates",
            "string",
            "",
            "All gates that are evaluated for pod readiness.",
            1,
            lasting(_gates, ("spec", "readinessGates"), ("status",)),
        ),
    )


_STATE: Final = (("status",), ("spec", "containers"), ("spec", "initContainers"), ("metadata", "deletionTimestamp"))
"""What the state of a pod follows from."""
_RESTARTS: Final = (
    "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."
)
_NOMINATED: Final = "Where the pod is expected to run once other pods have left the node."


def _of_state(find: Callable[[_State], Since | str]) -> LastingCell:
    return lasting(find, *_STATE, of=_state)


def _ready(state: _State) -> str:
    return f"{state.ready}/{state.containers}"


def _reason(state: _State) -> str:
    return state.reason


def _restarts(state: _State) -> Since | str:
    if not state.restarts or not state.last_restart:
        return str(state.restarts)
    last = since(state.last_restart)
    before, behind = f"{state.restarts} (", " ago)"
    return Since(last.moment, before, behind) if isinstance(last, Since) else f"{before}{last}{behind}"


def _address(pod: Object) -> str:
    addresses = objects_at(pod, "status", "podIPs")
    return (text(addresses[0].get("ip")) if addresses else text(at(pod, "status", "podIP"))) or NONE


def _gates(pod: Object) -> str:
    gates = objects_at(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    status: dict[Any, Any] = {}
    for condition in objects_at(pod, "status", "conditions"):
        status.setdefault(text(condition.get("type")), condition.get("status"))
    return f"{sum(status.get(text(gate.get('conditionType'))) == 'True' for gate in gates)}/{len(gates)}"


def _state(pod: Object) -> _State:
    status = object_at(pod, "status")
    conditions = objects_at(status, "conditions")
    reason = text(status.get("reason")) or text(status.get("phase"))
    if any(condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated" for condition in conditions):
        reason = "SchedulingGated"
    lasting = {
        text(container.get("name")) for container in objects_at(pod, "spec", "initContainers") if container.get("restartPolicy") == "Always"
    }
    total = len(list_at(pod, "spec", "containers")) + len(lasting)
    first = _initialization(pod, lasting, reason)
    initialized = any(condition.get("type") == "Initialized" and condition.get("status") == "True" for condition in conditions)
    if first.waiting and not initialized:
        ready, reason, restarts, last = first.ready, first.reason, first.restarts, first.last
    else:
        ready, reason, restarts, last = _running(status, conditions, first)
    return _State(ready, total, _deletion(pod, status, reason), restarts, last)


def _deletion(pod: Object, status: Object, reason: str) -> str:
    if not at(pod, "metadata", "deletionTimestamp"):
        return reason
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if text(status.get("phase")) in {"Failed", "Succeeded"} else "Terminating"


class _Initialization(NamedTuple):
    waiting: bool
    """Whether one of the containers that run first has not done its part."""
    reason: str
    ready: int
    restarts: int
    last: str
    lasting_restarts: int
    """Of init containers that run next to the others (sidecars)."""
    lasting_last: str


def _initialization(pod: Object, lasting: set[Any], reason: str) -> _Initialization:
    """How far the containers have come that run before the others."""
    waiting = False
    ready = restarts = lasting_restarts = 0
    last = lasting_last = ""
    for index, container in enumerate(objects_at(pod, "status", "initContainerStatuses")):
        count = integer(container.get("restartCount"))
        finished = text(at(container, "lastState", "terminated", "finishedAt"))
        restarts, last = restarts + count, max(last, finished)
        goes_on = text(container.get("name")) in lasting
        if goes_on:
            lasting_restarts, lasting_last = lasting_restarts + count, max(lasting_last, finished)
        terminated = at(container, "state", "terminated")
        if isinstance(terminated, dict) and not integer(terminated.get("exitCode")):
            continue
        if goes_on and container.get("started") is True:
            ready += container.get("ready") is True
            continue
        held = text(at(container, "state", "waiting", "reason"))
        if isinstance(terminated, dict):
            reason = f"Init:{_end(terminated)}"
        elif held and held != "PodInitializing":
            reason = f"Init:{held}"
        else:
            reason = f"Init:{index}/{len(list_at(pod, 'spec', 'initContainers'))}"
        waiting = True
        break
    return _Initialization(waiting, reason, ready, restarts, last, lasting_restarts, lasting_last)


def _end(terminated: Object) -> str:
    """Why a container ended."""
    if reason := text(terminated.get("reason")):
        return reason
    signal = integer(terminated.get("signal"))
    return f"Signal:{signal}" if signal else f"ExitCode:{integer(terminated.get('exitCode'))}"


def _running(status: Object, conditions: Sequence[Object], first: _Initialization) -> tuple[int, str, int, str]:
    """Ready containers, reason, restarts and the time of the last, once the pod is initialized."""
    ready, reason, restarts, last = first.ready, first.reason, first.lasting_restarts, first.lasting_last
    running, failure = False, ""
    for container in reversed(objects_at(status, "containerStatuses")):
        restarts += integer(container.get("restartCount"))
        last = max(last, text(at(container, "lastState", "terminated", "finishedAt")))
        terminated = at(container, "state", "terminated")
        if held := text(at(container, "state", "waiting", "reason")):
            reason = held
        elif isinstance(terminated, dict):
            reason = _end(terminated)
            if integer(terminated.get("exitCode")):
                failure = reason
        elif container.get("ready") is True and at(container, "state", "running") is not None:
            running = True
            ready += 1
    if reason == "Completed":
        if running and any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions):
            reason = "Running"
        elif failure:
            reason = failure
        elif running:
            reason = "NotReady"
    return ready, reason, restarts, last
