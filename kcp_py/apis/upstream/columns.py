"""What `kubectl get` shows of upstream kinds (kubernetes `pkg/printers/internalversion/printers.go`).

The cells are those of a real server; the descriptions of columns, which kubectl does not print, are left out where upstream has none of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, NAME, Column, LastingCell
from kcp_py.apis.typed.cells import (
    NONE,
    Object,
    age,
    at,
    column,
    field,
    flag,
    joined,
    labels_text,
    lasting,
    list_at,
    number,
    object_at,
    objects_at,
    text,
)
from kcp_py.apis.upstream.autoscaler_columns import autoscaler_columns
from kcp_py.apis.upstream.network_columns import NETWORK_COLUMNS
from kcp_py.apis.upstream.pod_columns import pod_columns
from kcp_py.apis.upstream.storage_columns import STORAGE_COLUMNS
from kcp_py.apis.upstream.workload_columns import WORKLOAD_COLUMNS


def _or_not_said(*path: str) -> LastingCell:
    def find(obj: Object) -> str:
        value = at(obj, *path)
        return "N/A" if value is None else str(value)

    return lasting(find)


def _node_status(node: Object) -> str:
    ready = [condition.get("status") for condition in objects_at(node, "status", "conditions") if condition.get("type") == "Ready"]
    status = "Unknown" if not ready else "Ready" if ready[-1] == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if at(node, "spec", "unschedulable") is True else status


def _roles(node: Object) -> str:
    labels = object_at(node, "metadata", "labels")
    prefix = "node-role.kubernetes.io/"
    roles = {name.removeprefix(prefix) for name in labels if name.startswith(prefix)} | {text(labels.get("kubernetes.io/role"))}
    return joined(sorted(roles - {""}), NONE)


def _node_address(kind: str) -> LastingCell:
    def find(node: Object) -> str:
        found = (address.get("address") for address in objects_at(node, "status", "addresses") if address.get("type") == kind)
        return text(next(found, NONE))

    return lasting(find)


def _kernel(node: Object) -> str:
    info = object_at(node, "status", "nodeInfo")
    architecture = text(info.get("architecture"))
    kernel = text(info.get("kernelVersion")) or "<unknown>"
    return f"{kernel} ({architecture})" if architecture else kernel


def _request_state(obj: Object) -> str:
    states = [text(condition.get("type")) for condition in objects_at(obj, "status", "conditions")]
    return text(next((state for state in reversed(states) if state in {"Denied", "Failed", "Issued"}), "Pending"))


def _dangling(obj: Object) -> str:
    found = (condition.get("status") for condition in objects_at(obj, "status", "conditions") if condition.get("type") == "Dangling")
    return text(next(found, "?"))


def _limited(*path: str) -> LastingCell:
    def find(obj: Object) -> Any:
        value = at(obj, "spec", "limited", *path)
        return NONE if value is None else value

    return lasting(find)


def _claim_state(obj: Object) -> str:
    states = ["deleted"] if at(obj, "metadata", "deletionTimestamp") else []
    if at(obj, "status", "allocation") is None:
        return ",".join(states or ["pending"])
    return ",".join([*states, "allocated", *(["reserved"] if list_at(obj, "status", "reservedFor") else [])])


def _migrated(obj: Object) -> str:
    resource = object_at(obj, "spec", "resource")
    return f"{text(resource.get('resource'))}.{text(resource.get('group'))}".rstrip(".")


def _migration(obj: Object) -> str:
    done = [text(condition.get("type")) for condition in objects_at(obj, "status", "conditions") if condition.get("status") == "True"]
    return text(next((state for state in reversed(done) if state in {"Failed", "Running", "Succeeded"}), "Unknown"))


def _group_status(obj: Object) -> str:
    conditions = {text(condition.get("type")): condition for condition in objects_at(obj, "status", "conditions")}
    if (target := conditions.get("DisruptionTarget")) is not None:
        return text(target.get("reason"))
    if (scheduled := conditions.get("PodGroupInitiallyScheduled")) is not None:
        return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    return "Pending"


_NAME_AND_AGE: Final = (NAME, AGE)


def _service_of(obj: Object) -> str:
    service = at(obj, "spec", "service")
    return f"{text(at(service, 'namespace'))}/{text(at(service, 'name'))}" if service is not None else "Local"


def _availability(obj: Object) -> str:
    for condition in objects_at(obj, "status", "conditions"):
        if condition.get("type") == "Available":
            status, reason = text(condition.get("status")), text(condition.get("reason"))
            return f"{status} ({reason})" if reason and status != "True" else status
    return "Unknown"


UPSTREAM_COLUMNS: Final[Mapping[tuple[str, str], Sequence[Column]]] = {
    **NETWORK_COLUMNS,
    **STORAGE_COLUMNS,
    **WORKLOAD_COLUMNS,
    ("", "pods"): pod_columns(),
    ("", "nodes"): (
        NAME,
        column("Status", _node_status),
        column("Roles", _roles),
        AGE,
        column("Version", field("status", "nodeInfo", "kubeletVersion")),
        column("Internal-IP", _node_address("InternalIP"), wide=True),
        column("External-IP", _node_address("ExternalIP"), wide=True),
        column("OS-Image", field("status", "nodeInfo", "osImage", none="<unknown>"), wide=True),
        column("Kernel-Version", _kernel, wide=True),
        column("Container-Runtime", field("status", "nodeInfo", "containerRuntimeVersion", none="<unknown>"), wide=True),
    ),
    ("apiregistration.k8s.io", "apiservices"): (
        NAME,
        Column("Service", "string", "", "The reference to the service that hosts this API endpoint.", 0, lasting(_service_of)),
        Column("Available", "string", "", "Whether this service is available.", 0, lasting(_availability)),
        AGE,
    ),
    ("autoscaling", "horizontalpodautoscalers"): autoscaler_columns(),
    ("policy", "poddisruptionbudgets"): (
        NAME,
        Column(
            "Min Available", "string", "", "The minimum number of pods that must be available.", 0, _or_not_said("spec", "minAvailable")
        ),
        Column(
            "Max Unavailable",
            "string",
            "",
            "The maximum number of pods that may be unavailable.",
            0,
            _or_not_said("spec", "maxUnavailable"),
        ),
        column("Allowed Disruptions", number("status", "disruptionsAllowed"), "integer"),
        AGE,
    ),
    ("certificates.k8s.io", "clustertrustbundles"): (NAME, column("SignerName", field("spec", "signerName", none=NONE))),
    ("certificates.k8s.io", "podcertificaterequests"): (
        NAME,
        column("PodName", field("spec", "podName")),
        column("ServiceAccountName", field("spec", "serviceAccountName")),
        column("NodeName", field("spec", "nodeName")),
        column("SignerName", field("spec", "signerName")),
        column("State", _request_state),
        column("UnverifiedUserAnnotations", lambda obj: labels_text(at(obj, "spec", "unverifiedUserAnnotations"))),
    ),
    ("coordination.k8s.io", "leasecandidates"): (
        NAME,
        column("LeaseName", field("spec", "leaseName")),
        column("BinaryVersion", field("spec", "binaryVersion")),
        column("EmulationVersion", field("spec", "emulationVersion")),
        AGE,
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): (
        NAME,
        column("PriorityLevel", field("spec", "priorityLevelConfiguration", "name")),
        column("MatchingPrecedence", number("spec", "matchingPrecedence")),
        column("DistinguisherMethod", field("spec", "distinguisherMethod", "type", none=NONE)),
        AGE,
        column("MissingPL", _dangling),
    ),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): (
        NAME,
        column("Type", field("spec", "type")),
        column("NominalConcurrencyShares", _limited("nominalConcurrencyShares")),
        column("Queues", _limited("limitResponse", "queuing", "queues")),
        column("HandSize", _limited("limitResponse", "queuing", "handSize")),
        column("QueueLengthLimit", _limited("limitResponse", "queuing", "queueLengthLimit")),
        AGE,
    ),
    ("node.k8s.io", "runtimeclasses"): (NAME, column("Handler", field("handler")), AGE),
    ("resource.k8s.io", "deviceclasses"): _NAME_AND_AGE,
    ("resource.k8s.io", "devicetaintrules"): (
        NAME,
        column("Key", field("spec", "taint", "key")),
        column("Value", field("spec", "taint", "value")),
        column("Effect", field("spec", "taint", "effect")),
        column("TimeAdded", age("spec", "taint", "timeAdded")),
        AGE,
    ),
    ("resource.k8s.io", "resourceclaims"): (NAME, column("State", _claim_state), AGE),
    ("resource.k8s.io", "resourceclaimtemplates"): _NAME_AND_AGE,
    ("resource.k8s.io", "resourceslices"): (
        NAME,
        column("Node", field("spec", "nodeName")),
        column("Driver", field("spec", "driver")),
        column("Pool", field("spec", "pool", "name")),
        AGE,
    ),
    ("scheduling.k8s.io", "podgroups"): (
        NAME,
        column("Policy", lambda obj: "Basic" if at(obj, "spec", "schedulingPolicy", "gang") is None else "Gang"),
        column("Workload", field("spec", "workloadRef", "workloadName", none=NONE)),
        column("Status", _group_status),
        AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        NAME,
        column("Value", number("value"), "integer"),
        column("Global-Default", flag("globalDefault"), "boolean"),
        AGE,
        column("PreemptionPolicy", field("preemptionPolicy")),
    ),
    ("scheduling.k8s.io", "workloads"): _NAME_AND_AGE,
    ("storagemigration.k8s.io", "storageversionmigrations"): (
        NAME._replace(format=""),
        column("Resource", _migrated),
        column("Status", _migration),
    ),
}
"""(group, plural) -> columns."""
