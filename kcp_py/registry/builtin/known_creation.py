"""What a create fills in for known kinds: their first status, the class of a pod, the selector of a job.

Source: kubernetes `pkg/registry/*/*/strategy.go` (`PrepareForCreate`), `pkg/apis/core/v1/helper/qos`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.registry.builtin.cells import Object, at, object_at, objects_at

Preparation = Callable[[dict[str, Any]], None]

_MEASURED: Final = ("cpu", "memory")
_JOB_NAME: Final = ("job-name", "batch.kubernetes.io/job-name")
_CONTROLLER: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


def _status(status: Mapping[str, Any]) -> Preparation:
    def prepare(obj: dict[str, Any]) -> None:
        obj["status"] = {key: dict(value) if isinstance(value, Mapping) else value for key, value in status.items()}

    return prepare


def _prepare_pod(pod: dict[str, Any]) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod)}
    if at(pod, "spec", "schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": None,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [condition]


def quality_of_service(pod: Object) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, of pods whose types are those of the kind."""
    if resources := object_at(pod, "spec", "resources"):
        return _quality(resources)
    containers = [*objects_at(pod, "spec", "initContainers"), *objects_at(pod, "spec", "containers")]
    found = {_quality(object_at(container, "resources")) for container in containers}
    return found.pop() if len(found) == 1 else "Burstable" if found else "BestEffort"


def _quality(resources: Object) -> str:
    requests, limits = ({name: _amount(resources, kind, name) for name in _MEASURED} for kind in ("requests", "limits"))
    if not any(requests.values()) and not any(limits.values()):
        return "BestEffort"
    return "Guaranteed" if all(limits.values()) and requests in (limits, dict.fromkeys(_MEASURED, "")) else "Burstable"


def _amount(resources: Object, kind: str, name: str) -> str:
    """An amount in its canonical form, which is that of the decoder; nothing where it is zero."""
    amount = at(resources, kind, name)
    return amount if isinstance(amount, str) and amount != "0" else ""


def _prepare_job(job: dict[str, Any]) -> None:
    job["status"] = {}
    spec, metadata = job["spec"], job["metadata"]
    template = spec.get("template")
    if spec.get("manualSelector") is True or not isinstance(template, dict):
        return
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for names, value in ((_JOB_NAME, metadata.get("name", "")), (_CONTROLLER, metadata["uid"])):
        for name in names:
            labels.setdefault(name, value)
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)  # as every decoding of the stored job would have it
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(_CONTROLLER[-1], metadata["uid"])


_NO_REPLICAS: Final = {"replicas": 0}
_NO_BALANCER: Final[Mapping[str, Any]] = {"loadBalancer": {}}

PREPARATIONS: Final[Mapping[tuple[str, str], Preparation]] = {
    ("", "persistentvolumeclaims"): _status({"phase": "Pending"}),
    ("", "persistentvolumes"): _status({"phase": "Pending"}),
    ("", "pods"): _prepare_pod,
    ("", "replicationcontrollers"): _status(_NO_REPLICAS),
    ("", "services"): _status(_NO_BALANCER),
    ("apps", "daemonsets"): _status({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
    ("apps", "deployments"): _status({}),
    ("apps", "replicasets"): _status(_NO_REPLICAS),
    ("apps", "statefulsets"): _status({"availableReplicas": 0, "replicas": 0}),
    ("autoscaling", "horizontalpodautoscalers"): _status({"desiredReplicas": 0}),
    ("batch", "cronjobs"): _status({}),
    ("batch", "jobs"): _prepare_job,
    ("certificates.k8s.io", "certificatesigningrequests"): _status({}),
    ("networking.k8s.io", "ingresses"): _status(_NO_BALANCER),
    ("policy", "poddisruptionbudgets"): _status({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}),
}
"""(group, plural) -> what is done to a new object whose status is gone."""
