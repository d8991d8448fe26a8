"""Defaults of upstream kinds that depend on other fields, which no schema can express.

Objects may have wrong types where they were stored under another CRD of the kind: unexpected values are left alone.
Source: kubernetes `pkg/apis/{core,apps,batch,autoscaling,networking,resource}/*/defaults.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kcp_py.apis.typed.cells import text

Object = dict[str, Any]
Defaulter = Callable[[Object], None]

_MAX_INT32: Final = 2**31 - 1
_MAX_NAME: Final = 255
_MAX_IMAGE: Final = 520
"""A name of 255 characters, a tag of 128 and a digest."""
_ALNUM: Final = "[a-zA-Z0-9]"
_DOMAIN: Final = rf"(?:{_ALNUM}(?:[a-zA-Z0-9-]*{_ALNUM})?(?:\.{_ALNUM}(?:[a-zA-Z0-9-]*{_ALNUM})?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT: Final = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""A reference to an image (github.com/distribution/reference `regexp.go`)."""


def _map(obj: Any, *path: str) -> Object:
    """The object at a path; an empty one, which is not part of `obj`, where there is none."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def _maps(obj: Object, name: str) -> Iterator[Object]:
    elements = obj.get(name)
    return (element for element in (elements if isinstance(elements, list) else ()) if isinstance(element, dict))


def _pull_policy(image: Any) -> str:
    """`Always` for images with the tag latest or without a tag; a malformed reference counts as one with another tag."""
    match = _IMAGE.fullmatch(image) if isinstance(image, str) and len(image) <= _MAX_IMAGE else None
    latest = match is not None and len(match["name"]) <= _MAX_NAME and (match["tag"] == "latest" or not (match["tag"] or match["digest"]))
    return "Always" if latest else "IfNotPresent"


def _default_pod_spec(spec: Object) -> None:
    if not spec:
        return
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in _maps(spec, name):
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = _pull_policy(container.get("image"))
            container.setdefault("resources", {})
    for volume in _maps(spec, "volumes"):
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}
        if (image := _map(volume, "image")) and not image.get("pullPolicy"):
            image["pullPolicy"] = _pull_policy(image.get("reference"))
        if claim := _map(volume, "ephemeral", "volumeClaimTemplate", "spec"):
            claim.setdefault("volumeMode", "Filesystem")


def _default_pod(obj: Object) -> None:
    spec = _map(obj, "spec")
    if not spec:
        return
    _default_pod_spec(spec)
    _default_addresses(_map(obj, "status"))
    spec.setdefault("enableServiceLinks", True)
    if isinstance(period := spec.get("terminationGracePeriodSeconds"), int) and period < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for name in ("initContainers", "containers"):
        for container in _maps(spec, name):
            resources = _map(container, "resources")
            if limits := _map(resources, "limits"):
                requests = resources.setdefault("requests", {})
                if isinstance(requests, dict):
                    for resource, limit in limits.items():
                        requests.setdefault(resource, limit)
            if spec.get("hostNetwork") is True:
                for port in _maps(container, "ports"):
                    if not port.get("hostPort") and "containerPort" in port:
                        port["hostPort"] = port["containerPort"]


def _default_addresses(status: Object) -> None:
    """Make the single address and the list of addresses agree. The single address wins."""
    address = status.get("podIP")
    addresses = list(_maps(status, "podIPs"))
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address and "ip" in addresses[0]:
        status["podIP"] = addresses[0]["ip"]


def _default_template(obj: Object) -> None:
    _default_pod_spec(_map(obj, "spec", "template", "spec"))


def _default_pod_template(obj: Object) -> None:
    _default_pod_spec(_map(obj, "template", "spec"))


def _take_labels(obj: Object) -> Object:
    """The labels of the template, which become the object's own, and are one map with it, where it has none."""
    labels = _map(obj, "spec", "template", "metadata", "labels")
    if labels and not _map(obj, "metadata", "labels"):
        obj["metadata"]["labels"] = labels
    return labels


def _default_replication_controller(obj: Object) -> None:
    _default_template(obj)
    labels = _take_labels(obj)
    if labels:
        obj["metadata"]["labels"] = dict(obj["metadata"]["labels"])
    spec = _map(obj, "spec")
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)


def _default_strategy(name: str, rolling: Mapping[str, Any]) -> Defaulter:
    def default(obj: Object) -> None:
        _default_template(obj)
        strategy = _map(obj, "spec", name)
        if strategy.get("type") == "RollingUpdate" and not isinstance(strategy.get("rollingUpdate"), dict):
            strategy["rollingUpdate"] = dict(rolling)

    return default


def _default_stateful_set(obj: Object) -> None:
    _default_template(obj)
    strategy = _map(obj, "spec", "updateStrategy")
    if "updateStrategy" in _map(obj, "spec") and not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {"maxUnavailable": 1, "partition": 0})
    for claim in _maps(_map(obj, "spec"), "volumeClaimTemplates"):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        status = claim.setdefault("status", {})
        if isinstance(status, dict):
            status.setdefault("phase", "Pending")


def _default_job_spec(spec: Object) -> None:
    if not spec:
        return
    _default_pod_spec(_map(spec, "template", "spec"))


def _default_job(obj: Object) -> None:
    spec = _map(obj, "spec")
    if not spec:
        return
    _default_job_spec(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    _take_labels(obj)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def _default_cron_job(obj: Object) -> None:
    _default_job_spec(_map(obj, "spec", "jobTemplate", "spec"))


def _default_service(obj: Object) -> None:
    spec = _map(obj, "spec")
    kind = text(spec.get("type"))
    match spec.get("sessionAffinity"):
        case "None":
            spec.pop("sessionAffinityConfig", None)
        case "ClientIP" if _map(spec, "sessionAffinityConfig", "clientIP").get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for port in _maps(spec, "ports"):
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
    external = kind in {"LoadBalancer", "NodePort"} or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if external and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind in {"ClusterIP", "LoadBalancer", "NodePort"}:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in _maps(_map(obj, "status", "loadBalancer"), "ingress"):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_autoscaler(obj: Object) -> None:
    spec = _map(obj, "spec")
    if not spec:
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if isinstance(behavior, dict):
        up = {"policies": [_scaling("Pods", 4), _scaling("Percent", 100)], "selectPolicy": "Max", "stabilizationWindowSeconds": 0}
        down = {"policies": [_scaling("Percent", 100)], "selectPolicy": "Max"}
        for name, rules in (("scaleUp", up), ("scaleDown", down)):
            behavior[name] = {**rules, **_map(behavior, name)}


def _scaling(kind: str, value: int) -> Object:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _default_network_policy(obj: Object) -> None:
    spec = _map(obj, "spec")
    if "spec" in obj and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _default_phase(obj: Object) -> None:
    status = obj.setdefault("status", {})
    if isinstance(status, dict) and not status.get("phase"):
        status["phase"] = "Pending"


def _default_node(obj: Object) -> None:
    spec = _map(obj, "spec")
    given, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if given and not (isinstance(ranges, list) and ranges and ranges[0] == given):
        spec["podCIDRs"] = [given]
    elif isinstance(ranges, list) and ranges and not given:
        spec["podCIDR"] = ranges[0]
    status = _map(obj, "status")
    if "allocatable" not in status and (capacity := _map(status, "capacity")):
        status["allocatable"] = dict(capacity)


def _default_device_requests(claim: Object) -> None:
    for request in _maps(_map(claim, "devices"), "requests"):
        # In v1beta1, a request is what later versions call exactly.
        exact = _map(request, "exactly") or (request if "deviceClassName" in request else {})
        for asked in (exact, *_maps(request, "firstAvailable")):
            if asked:
                asked.setdefault("allocationMode", "ExactCount")
                if asked["allocationMode"] == "ExactCount":
                    asked.setdefault("count", 1)


def _default_claim(obj: Object) -> None:
    _default_device_requests(_map(obj, "spec"))


def _default_claim_template(obj: Object) -> None:
    _default_device_requests(_map(obj, "spec", "spec"))


_APPS: Final = "io.k8s.api.apps.v1."
_BATCH: Final = "io.k8s.api.batch.v1."
_CORE: Final = "io.k8s.api.core.v1."

DEFAULTERS: Final[Mapping[str, Defaulter]] = {
    _APPS + "DaemonSet": _default_strategy("updateStrategy", {"maxSurge": 0, "maxUnavailable": 1}),
    _APPS + "Deployment": _default_strategy("strategy", {"maxSurge": "25%", "maxUnavailable": "25%"}),
    _APPS + "ReplicaSet": _default_template,
    _APPS + "StatefulSet": _default_stateful_set,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": _default_autoscaler,
    _BATCH + "CronJob": _default_cron_job,
    _BATCH + "Job": _default_job,
    _CORE + "Node": _default_node,
    _CORE + "PersistentVolume": _default_phase,
    _CORE + "PersistentVolumeClaim": _default_phase,
    _CORE + "Pod": _default_pod,
    _CORE + "PodTemplate": _default_pod_template,
    _CORE + "ReplicationController": _default_replication_controller,
    _CORE + "Service": _default_service,
    "io.k8s.api.networking.v1.NetworkPolicy": _default_network_policy,
    **{f"io.k8s.api.resource.{version}.ResourceClaim": _default_claim for version in ("v1", "v1beta1", "v1beta2")},
    **{f"io.k8s.api.resource.{version}.ResourceClaimTemplate": _default_claim_template for version in ("v1", "v1beta1", "v1beta2")},
}
"""Model -> the function that fills in the defaults that its schema does not have."""
