"""What a create fills in for upstream kinds: their first status, the class of a pod, the selector of a job.

Source: kubernetes `pkg/registry/*/*/strategy.go` (`PrepareForCreate`), `pkg/apis/core/v1/helper/qos`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apis.typed.cells import Object, at, object_at, objects_at
from kcp_py.request.user import UserInfo

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation of a DaemonSet that counts the changes of its template (kubernetes `pkg/apis/apps/v1/conversion.go`)."""

Preparation = Callable[[dict[str, Any]], None]

_FIRST_SOURCES: Final = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
_HOST_NAME: Final = "kubernetes.io/hostname"
_MEASURED: Final = ("cpu", "memory")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL_PROFILE: Final = "localhost/"
_LONGEST_PATH: Final = 4095
_JOB_NAME: Final = ("job-name", "batch.kubernetes.io/job-name")
_CONTROLLER: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


def _status(status: Mapping[str, Any]) -> Preparation:
    def prepare(obj: dict[str, Any]) -> None:
        obj["status"] = {key: dict(value) if isinstance(value, Mapping) else value for key, value in status.items()}

    return prepare


def _prepare_daemon_set(daemons: dict[str, Any]) -> None:
    daemons["status"] = {}
    daemons["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"


def _prepare_taint_rule(rule: dict[str, Any]) -> None:
    rule["status"] = {}
    rule["spec"].setdefault("taint", {}).setdefault("timeAdded", rule["metadata"]["creationTimestamp"])


def _prepare_claim(claim: dict[str, Any]) -> None:
    claim["status"] = {"phase": "Pending"}
    fill_sources(claim.get("spec") or {}, {})


def fill_sources(spec: dict[str, Any], before: Object) -> None:
    """Make the two fields for the source of a claim agree. Old clients know only the first, which takes no other kinds.

    Args:
        spec: of the claim, changed in place.
        before: of the stored claim; empty for a new one.
    """
    reference, used = spec.get("dataSourceRef"), bool(before.get("dataSource") or before.get("dataSourceRef"))
    if reference is not None and reference.get("namespace") and not (before.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]  # sources of other namespaces are switched off
        reference = None
    source = spec.get("dataSource")
    kind = (source or {}).get("apiGroup") or "", (source or {}).get("kind")
    if source is not None and reference is None and not used and kind not in _FIRST_SOURCES:
        del spec["dataSource"]
    elif source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _prepare_slice(endpoint_slice: dict[str, Any]) -> None:
    drop_topology(endpoint_slice, {})


def drop_topology(endpoint_slice: dict[str, Any], old: Object) -> None:
    """Drop, in place, what version v1 does not take: the topology of changed endpoints, of which the name of the node stays."""
    endpoints, before = endpoint_slice.get("endpoints") or [], old.get("endpoints") or []
    if before and endpoints == before:
        return
    nodes = {(endpoint.get("deprecatedTopology") or {}).get(_HOST_NAME) for endpoint in before} - {None, ""}
    for endpoint in endpoints:
        topology = endpoint.pop("deprecatedTopology", None) or {}
        if "nodeName" not in endpoint and topology.get(_HOST_NAME) in nodes:
            endpoint["nodeName"] = topology[_HOST_NAME]


def _prepare_volume(volume: dict[str, Any]) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": volume["metadata"]["creationTimestamp"]}


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


def fill_profiles(pod: dict[str, Any]) -> None:
    """Fill, in place, the AppArmor profiles of containers from the deprecated annotations (`applyAppArmorVersionSkew`).

    A container with a profile of its own keeps it, and one whose annotation says what the pod says gets none.
    """
    annotations = pod["metadata"].get("annotations") or {}
    if not any(name.startswith(_APPARMOR) for name in annotations) or at(pod, "spec", "os", "name") == "windows":
        return
    of_pod = at(pod, "spec", "securityContext", "appArmorProfile")
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod["spec"].get(member) or ():
            profile = _profile(annotations.get(f"{_APPARMOR}{container.get('name', '')}"))
            context = container.get("securityContext") or {}
            if profile is not None and profile != of_pod and context.get("appArmorProfile") is None:
                container["securityContext"] = {**context, "appArmorProfile": profile}


def _profile(annotation: str | None) -> dict[str, str] | None:
    """The profile that an annotation stands for; None where there is none that is valid."""
    match annotation:
        case "unconfined":
            return {"type": "Unconfined"}
        case "runtime/default":
            return {"type": "RuntimeDefault"}
    name = (annotation or "").removeprefix(_LOCAL_PROFILE)
    if not name or name == annotation or name.strip() != name or len(name.encode()) > _LONGEST_PATH:
        return None
    return {"type": "Localhost", "localhostProfile": name}


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


def _fill_job(job: dict[str, Any], user: UserInfo) -> None:
    del user
    spec, metadata = job["spec"], job["metadata"]
    generated = metadata.get("generateName", "")  # a name that was taken is replaced by another one
    if spec.get("manualSelector") is True:
        return
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for names, value in ((_JOB_NAME, metadata.get("name", "")), (_CONTROLLER, metadata["uid"])):
        for name in names:
            if name not in labels or (generated and labels[name].startswith(generated)):
                labels[name] = value
    if not metadata.get("labels") or metadata["labels"] is labels:
        metadata["labels"] = dict(labels)  # the defaults made them one map; every decoding of the stored job does
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(_CONTROLLER[-1], metadata["uid"])


def _prepare_service(service: dict[str, Any]) -> None:
    service["status"] = {"loadBalancer": {}}
    fill_cluster_addresses(service)


def fill_cluster_addresses(service: dict[str, Any]) -> None:
    """The first of the addresses of a service is the one that old clients know alone (`NormalizeClusterIPs`)."""
    spec = service.get("spec") or {}
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _prepare_api_service(service: dict[str, Any]) -> None:
    """One without a service is the server's own, which is there."""
    service["status"] = {}
    if service["spec"].get("service") is None:
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": service["metadata"]["creationTimestamp"],
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        service["status"]["conditions"] = [condition]


_NO_REPLICAS: Final = {"replicas": 0}
_NO_BALANCER: Final[Mapping[str, Any]] = {"loadBalancer": {}}

PREPARATIONS: Final[Mapping[tuple[str, str], Preparation]] = {
    ("", "persistentvolumeclaims"): _prepare_claim,
    ("", "persistentvolumes"): _prepare_volume,
    ("", "pods"): _prepare_pod,
    ("", "replicationcontrollers"): _status(_NO_REPLICAS),
    ("", "services"): _prepare_service,
    ("apiregistration.k8s.io", "apiservices"): _prepare_api_service,
    ("apps", "daemonsets"): _prepare_daemon_set,
    ("apps", "deployments"): _status({}),
    ("apps", "replicasets"): _status(_NO_REPLICAS),
    ("apps", "statefulsets"): _status({"availableReplicas": 0, "replicas": 0}),
    ("autoscaling", "horizontalpodautoscalers"): _status({"desiredReplicas": 0}),
    ("batch", "cronjobs"): _status({}),
    ("batch", "jobs"): _status({}),
    ("discovery.k8s.io", "endpointslices"): _prepare_slice,
    ("networking.k8s.io", "ingresses"): _status(_NO_BALANCER),
    ("resource.k8s.io", "devicetaintrules"): _prepare_taint_rule,
    ("policy", "poddisruptionbudgets"): _status({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}),
}
"""(group, plural) -> a function for a new object whose status was removed. Fields that are always written are added later."""

FILLS: Final[Mapping[tuple[str, str], Callable[[dict[str, Any], UserInfo], None]]] = {
    ("batch", "jobs"): _fill_job,
}
"""(group, plural) -> a function that runs after that; its fields have no owner."""
