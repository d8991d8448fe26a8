"""Columns of workloads: pod templates, replication controllers, and the kinds of the groups apps and batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, NAME, Column, Since, human_duration
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.typed.cells import (
    NONE,
    UNSET,
    Object,
    age,
    at,
    column,
    count_at,
    field,
    integer,
    joined,
    labels_text,
    lasting,
    number,
    objects_at,
    selector_text,
    text,
)

_TEMPLATE: Final = ("spec", "template")
_NODE_SELECTOR: Final = (*_TEMPLATE, "spec", "nodeSelector")


def _containers(*template: str, wide: bool = True) -> tuple[Column, Column]:
    path = (*template, "spec", "containers")

    def names(obj: Object) -> str:
        return joined(container.get("name") for container in objects_at(obj, *path))

    def images(obj: Object) -> str:
        return joined(container.get("image") for container in objects_at(obj, *path))

    return (
        Column("Containers", "string", "", "Names of each container in the template.", int(wide), lasting(names, path)),
        Column("Images", "string", "", "Images referenced by each container in the template.", int(wide), lasting(images, path)),
    )


def _selector(*path: str, none: str = NONE, wrong: str = "<error>") -> Column:
    return column("Selector", lasting(lambda obj: selector_text(at(obj, *path), none=none, wrong=wrong), path), wide=True)


def _ready(*wanted: str) -> Column:
    def cell(obj: Object) -> str:
        return f"{integer(at(obj, 'status', 'readyReplicas'))}/{integer(at(obj, *wanted))}"

    return Column("Ready", "string", "", "Number of the pod with ready state", 0, lasting(cell, ("status", "readyReplicas"), wanted))


def _job_status(job: Object) -> str:
    found: dict[Any, Any] = {}
    for condition in objects_at(job, "status", "conditions"):
        found.setdefault(text(condition.get("type")), condition.get("status"))
    before, behind = ("Complete", "Failed"), ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    terminating = ("Terminating",) if at(job, "metadata", "deletionTimestamp") else ()
    states = (
        *(name for name in before if found.get(name) == "True"),
        *terminating,
        *(name for name in behind if found.get(name) == "True"),
    )
    return states[0] if states else "Running"


def _completions(job: Object) -> str:
    succeeded, wanted = integer(at(job, "status", "succeeded")), at(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{integer(wanted)}"
    parallelism = integer(at(job, "spec", "parallelism"))
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Object) -> Since | str:
    started, ended = at(job, "status", "startTime"), at(job, "status", "completionTime")
    if not started:
        return ""
    try:
        if not ended:
            parse_time(started)
            return Since(started)
        return human_duration(parse_time(ended) - parse_time(started))
    except (TypeError, ValueError):
        return ""


def _suspended(obj: Object) -> str:
    value = at(obj, "spec", "suspend")
    return str(value) if isinstance(value, bool) else UNSET


def _controller(obj: Object) -> str:
    for owner in objects_at(obj, "metadata", "ownerReferences"):
        if owner.get("controller") is True:
            group = text(owner.get("apiVersion")).rpartition("/")[0]
            kind = text(owner.get("kind"))
            return f"{kind}.{group}".rstrip(".").lower() + "/" + text(owner.get("name"))
    return NONE


_REPLICAS: Final = (
    column("Desired", number("spec", "replicas"), "integer"),
    column("Current", number("status", "replicas"), "integer"),
    column("Ready", number("status", "readyReplicas"), "integer"),
)
WORKLOAD_COLUMNS: Final[Mapping[tuple[str, str], Sequence[Column]]] = {
    ("", "podtemplates"): (
        NAME,
        *_containers("template", wide=False),
        column("Pod Labels", lambda obj: labels_text(at(obj, "template", "metadata", "labels"))),
    ),
    ("", "replicationcontrollers"): (
        NAME,
        *_REPLICAS,
        AGE,
        *_containers(*_TEMPLATE),
        column("Selector", lambda obj: labels_text(at(obj, "spec", "selector")), wide=True),
    ),
    ("apps", "controllerrevisions"): (
        NAME,
        column("Controller", _controller),
        column("Revision", number("revision")),
        AGE,
    ),
    ("apps", "daemonsets"): (
        NAME,
        column("Desired", number("status", "desiredNumberScheduled"), "integer"),
        column("Current", number("status", "currentNumberScheduled"), "integer"),
        column("Ready", number("status", "numberReady"), "integer"),
        column("Up-to-date", number("status", "updatedNumberScheduled"), "integer"),
        column("Available", number("status", "numberAvailable"), "integer"),
        column("Node Selector", lasting(lambda obj: labels_text(at(obj, *_NODE_SELECTOR)), _NODE_SELECTOR)),
        AGE,
        *_containers(*_TEMPLATE),
        _selector("spec", "selector"),
    ),
    ("apps", "deployments"): (
        NAME,
        _ready("spec", "replicas"),
        column("Up-to-date", number("status", "updatedReplicas")),
        column("Available", number("status", "availableReplicas")),
        AGE,
        *_containers(*_TEMPLATE),
        _selector("spec", "selector", none="", wrong="<invalid>"),
    ),
    ("apps", "replicasets"): (NAME, *_REPLICAS, AGE, *_containers(*_TEMPLATE), _selector("spec", "selector")),
    ("apps", "statefulsets"): (NAME, _ready("spec", "replicas"), AGE, *_containers(*_TEMPLATE)),
    ("batch", "cronjobs"): (
        NAME,
        column("Schedule", field("spec", "schedule")),
        column("Timezone", field("spec", "timeZone", none=NONE)),
        column("Suspend", lasting(_suspended, ("spec", "suspend")), "boolean"),
        column("Active", count_at("status", "active"), "integer"),
        column("Last Schedule", age("status", "lastScheduleTime", none=NONE)),
        AGE,
        *_containers("spec", "jobTemplate", "spec", "template"),
        _selector("spec", "jobTemplate", "spec", "selector"),
    ),
    ("batch", "jobs"): (
        NAME,
        Column(
            "Status",
            "string",
            "",
            "Status of the job.",
            0,
            lasting(_job_status, ("status", "conditions"), ("metadata", "deletionTimestamp")),
        ),
        column("Completions", lasting(_completions, ("status", "succeeded"), ("spec", "completions"), ("spec", "parallelism"))),
        Column(
            "Duration",
            "string",
            "",
            "Time required to complete the job.",
            0,
            lasting(_duration, ("status", "startTime"), ("status", "completionTime")),
        ),
        AGE,
        *_containers(*_TEMPLATE),
        _selector("spec", "selector"),
    ),
}
"""(group, plural) -> columns."""
