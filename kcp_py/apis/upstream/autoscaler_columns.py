"""What `kubectl get hpa` shows (kubernetes `pkg/printers/internalversion/printers.go`, `formatHPAMetrics`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, NAME, Column
from kcp_py.apis.typed.cells import NONE, UNSET, Object, at, column, integer, number, object_at, objects_at, quantity, text

_SHOWN: Final = 2
_MEMBERS: Final = {
    "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods", "Resource": "resource",
}  # fmt: skip
_UNKNOWN: Final = "<unknown>"


def autoscaler_columns() -> Sequence[Column]:
    """The columns of autoscalers, in either version."""
    return (
        NAME,
        column("Reference", _reference),
        column("Targets", _targets),
        column("MinPods", _minimum),
        column("MaxPods", number("spec", "maxReplicas")),
        column("Replicas", number("status", "currentReplicas")),
        AGE,
    )


def _reference(obj: Object) -> str:
    target = object_at(obj, "spec", "scaleTargetRef")
    return f"{text(target.get('kind'))}/{text(target.get('name'))}"


def _minimum(obj: Object) -> str:
    value = at(obj, "spec", "minReplicas")
    return UNSET if value is None else str(integer(value))


def _targets(obj: Object) -> str:
    metrics = objects_at(obj, "spec", "metrics")
    current = objects_at(obj, "status", "currentMetrics")
    if "metrics" not in object_at(obj, "spec") and (wanted := at(obj, "spec", "targetCPUUtilizationPercentage")) is not None:
        # autoscaling/v1 knows the processor alone.
        found = at(obj, "status", "currentCPUUtilizationPercentage")
        return f"cpu: {_percent(found, _UNKNOWN)}/{_percent(wanted, '<auto>')}"
    if not metrics:
        return NONE
    shown = [_metric(metric, current[index] if index < len(current) else {}) for index, metric in enumerate(metrics)]
    listed = ", ".join(shown[:_SHOWN])
    return f"{listed} + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else listed


def _metric(metric: Object, status: Object) -> str:
    kind = text(metric.get("type"))
    member = _MEMBERS.get(kind)
    if member is None:
        return "<unknown type>"
    target, found = object_at(metric, member, "target"), at(status, member, "current")
    average = target.get("averageValue")
    if kind in {"ContainerResource", "Resource"}:
        name = text(at(metric, member, "name"))
        if average is not None:
            return f"{name}: {_amount(found, 'averageValue')}/{quantity(average)}"
        return f"{name}: {_percent(at(found, 'averageUtilization'), _UNKNOWN)}/{_percent(target.get('averageUtilization'), '<auto>')}"
    if kind == "Pods":
        return f"{_amount(found, 'averageValue')}/{quantity(average)}"
    if average is not None:
        value = at(found, "averageValue")
        return f"{_UNKNOWN if value is None else quantity(value)}/{quantity(average)} (avg)"
    return f"{_amount(found, 'value')}/{quantity(target.get('value'))}"


def _amount(current: Any, name: str) -> str:
    """The measured value; `<nil>` where its type differs from that of the target."""
    if current is None:
        return _UNKNOWN
    value = at(current, name)
    return "<nil>" if value is None else quantity(value)


def _percent(value: Any, missing: str) -> str:
    return missing if value is None else f"{integer(value)}%"
