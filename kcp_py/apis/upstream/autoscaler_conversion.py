"""HorizontalPodAutoscalers of autoscaling/v1 and autoscaling/v2: what v1 has no field for travels in annotations.

Source: kubernetes `pkg/apis/autoscaling/v1/conversion.go`, `pkg/apis/autoscaling/annotations.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.typed.cells import at, object_at, objects_at

Object = dict[str, Any]
Check = Callable[[Object], object]
"""Raises StatusError: an object of autoscaling/v2 is not of its types."""

V1: Final = "autoscaling/v1"
V2: Final = "autoscaling/v2"
DEFAULT_UTILIZATION: Final = 80

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = _PREFIX + "metrics"
_CURRENT_METRICS: Final = _PREFIX + "current-metrics"
_BEHAVIOR: Final = _PREFIX + "behavior"
_CONDITIONS: Final = _PREFIX + "conditions"
_CARRIERS: Final = (_METRICS, _CURRENT_METRICS, _BEHAVIOR, _CONDITIONS)


class _Form(NamedTuple):
    """One type of metric: its field, and what its fields are called in v1 and where they are in v2."""

    field: str
    wanted: Mapping[str, tuple[str, ...]]
    measured: Mapping[str, tuple[str, ...]]


def _metric(selector: str) -> dict[str, tuple[str, ...]]:
    return {"metricName": ("metric", "name"), selector: ("metric", "selector")}


_RESOURCE: Final = {
    "name": ("name",),
    "targetAverageUtilization": ("target", "averageUtilization"),
    "targetAverageValue": ("target", "averageValue"),
}
_MEASURED_RESOURCE: Final = {
    "name": ("name",),
    "currentAverageUtilization": ("current", "averageUtilization"),
    "currentAverageValue": ("current", "averageValue"),
}
_FORMS: Final[Mapping[str, _Form]] = {
    "ContainerResource": _Form(
        "containerResource", {**_RESOURCE, "container": ("container",)}, {**_MEASURED_RESOURCE, "container": ("container",)}
    ),
    "External": _Form(
        "external",
        {**_metric("metricSelector"), "targetValue": ("target", "value"), "targetAverageValue": ("target", "averageValue")},
        {**_metric("metricSelector"), "currentValue": ("current", "value"), "currentAverageValue": ("current", "averageValue")},
    ),
    "Object": _Form(
        "object",
        {
            "target": ("describedObject",),
            **_metric("selector"),
            "targetValue": ("target", "value"),
            "averageValue": ("target", "averageValue"),
        },
        {
            "target": ("describedObject",),
            **_metric("selector"),
            "currentValue": ("current", "value"),
            "averageValue": ("current", "averageValue"),
        },
    ),
    "Pods": _Form(
        "pods",
        {**_metric("selector"), "targetAverageValue": ("target", "averageValue")},
        {**_metric("selector"), "currentAverageValue": ("current", "averageValue")},
    ),
    "Resource": _Form("resource", _RESOURCE, _MEASURED_RESOURCE),
}


def convert_autoscaler(obj: Object, api_version: str, check: Check) -> Object:
    """An autoscaler in a version; it may be in that version already."""
    if obj["apiVersion"] == api_version:
        return obj
    if api_version == V1:
        return _to_v1(obj)
    converted = _to_v2(obj)
    try:
        check(converted)
    except StatusError:
        # Clients may write any annotations: those that cannot be read have no effect.
        converted = _to_v2({**obj, "metadata": _without_carriers(obj["metadata"])})
    return converted


def _without_carriers(metadata: Object) -> Object:
    annotations = object_at(metadata, "annotations")
    if not any(name in annotations for name in _CARRIERS):
        return metadata
    kept = {name: value for name, value in annotations.items() if name not in _CARRIERS}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**rest, "annotations": kept} if kept else rest


def _to_v1(obj: Object) -> Object:
    spec, status = object_at(obj, "spec"), object_at(obj, "status")
    carried: dict[str, Any] = {}
    metrics = objects_at(spec, "metrics")
    processor = [metric for metric in metrics if _is_processor(metric)]
    if others := [metric for metric in metrics if not _is_processor(metric)]:
        carried[_METRICS] = [_renamed_to_v1(metric, measured=False) for metric in others]
    current = objects_at(status, "currentMetrics")
    if current:
        carried[_CURRENT_METRICS] = [_renamed_to_v1(metric, measured=True) for metric in current]
    if "behavior" in spec:
        carried[_BEHAVIOR] = _with_keys(spec["behavior"], lambda name: name[:1].upper() + name[1:])
    if conditions := objects_at(status, "conditions"):
        carried[_CONDITIONS] = conditions
    metadata = _without_carriers(obj["metadata"])
    if carried:
        written = {name: orjson.dumps(value).decode() for name, value in carried.items()}
        metadata = {**metadata, "annotations": {**object_at(metadata, "annotations"), **written}}
    converted: Object = {**obj, "apiVersion": V1, "metadata": metadata}
    if "spec" in obj:
        converted["spec"] = {name: value for name, value in spec.items() if name not in {"behavior", "metrics"}}
        if processor:
            converted["spec"]["targetCPUUtilizationPercentage"] = at(processor[0], "resource", "target", "averageUtilization")
    if "status" in obj:
        converted["status"] = {name: value for name, value in status.items() if name not in {"conditions", "currentMetrics"}}
        used = [at(metric, "resource", "current", "averageUtilization") for metric in current if at(metric, "resource", "name") == "cpu"]
        if used := [value for value in used if value is not None]:
            converted["status"]["currentCPUUtilizationPercentage"] = used[-1]
    return converted


def _is_processor(metric: Mapping[str, Any]) -> bool:
    """Whether v1 has a field for a metric."""
    target = at(metric, "resource", "target", "averageUtilization")
    return metric.get("type") == "Resource" and at(metric, "resource", "name") == "cpu" and target is not None


def _to_v2(obj: Object) -> Object:
    annotations = object_at(obj, "metadata", "annotations")
    spec, status = dict(object_at(obj, "spec")), dict(object_at(obj, "status"))
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [] if utilization is None else [_processor(utilization)]
    metrics = [*_renamed_to_v2(_carried_list(annotations, _METRICS), measured=False), *metrics]
    spec["metrics"] = metrics or [_processor(DEFAULT_UTILIZATION)]
    if isinstance(behavior := _carried(annotations, _BEHAVIOR), dict) and behavior:
        spec["behavior"] = _with_keys(behavior, lambda name: name[:1].lower() + name[1:])
    used = status.pop("currentCPUUtilizationPercentage", None)
    if current := _renamed_to_v2(_carried_list(annotations, _CURRENT_METRICS), measured=True):
        status["currentMetrics"] = current
    elif used is not None:
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
    if conditions := _carried_list(annotations, _CONDITIONS):
        status["conditions"] = conditions
    converted = {**obj, "apiVersion": V2, "metadata": _without_carriers(obj["metadata"]), "spec": spec}
    if status or "status" in obj:
        converted["status"] = status
    return converted


def _with_keys(value: Any, rename: Callable[[str], str]) -> Any:
    """With other keys: upstream writes this annotation from a type whose fields have no JSON names."""
    if isinstance(value, dict):
        return {rename(name): _with_keys(member, rename) for name, member in value.items()}
    return [_with_keys(member, rename) for member in value] if isinstance(value, list) else value


def _processor(utilization: Any) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization}}}


def _carried(annotations: Mapping[str, Any], name: str) -> Any:
    """What an annotation carries; None where it cannot be read."""
    with suppress(TypeError, ValueError):
        return orjson.loads(annotations.get(name, b"null"))
    return None


def _carried_list(annotations: Mapping[str, Any], name: str) -> list[Object]:
    found = _carried(annotations, name)
    return found if isinstance(found, list) and all(isinstance(element, dict) for element in found) else []


def _renamed_to_v1(metric: Mapping[str, Any], *, measured: bool) -> Object:
    form = _FORMS.get(str(metric.get("type")))
    renamed: Object = {"type": metric.get("type")}
    if form is not None and (source := metric.get(form.field)) is not None:
        fields = form.measured if measured else form.wanted
        renamed[form.field] = {name: value for name, path in fields.items() if (value := at(source, *path)) is not None}
        if "targetValue" in fields and form.field == "object":
            renamed[form.field].setdefault("targetValue", "0")  # v1 cannot leave it out
    return renamed


def _renamed_to_v2(metrics: Sequence[Any], *, measured: bool) -> list[Object]:
    renamed = []
    for metric in metrics:
        form = _FORMS.get(str(at(metric, "type")))
        source = object_at(metric, form.field) if form is not None else {}
        if form is not None and form.field == "object" and "averageValue" in source and source.get("targetValue") == "0":
            source = {name: value for name, value in source.items() if name != "targetValue"}
        written: Object = {}
        for name, path in ((form.measured if measured else form.wanted) if form is not None else {}).items():
            if (value := source.get(name)) is not None:
                parent = written
                for part in path[:-1]:
                    parent = parent.setdefault(part, {})
                parent[path[-1]] = value
        if form is not None and not measured:
            target = written.setdefault("target", {})
            target["type"] = _target_type(form.field, target)
        renamed.append({"type": at(metric, "type"), **({form.field: written} if form is not None else {})})
    return renamed


def _target_type(field: str, target: Mapping[str, Any]) -> str:
    match field:
        case "external":
            return "Value" if "value" in target else "AverageValue"
        case "object":
            return "AverageValue" if "averageValue" in target else "Value"
        case "pods":
            return "AverageValue"
        case _:
            return "Utilization" if "averageUtilization" in target else "AverageValue"
