"""Events: one storage, served as core/v1 and as events.k8s.io/v1 under other names of the same fields.

Source: kubernetes `pkg/apis/core/validation/events.go`, `pkg/apis/events/v1/conversion.go`. Objects are stored as core/v1. The group
through which a write comes decides how strictly it is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, go_struct, invalid, required
from kcp_py.apimachinery.meta.names import byte_length, dns_subdomain_problems, path_segment_problems, qualified_name_problems
from kcp_py.registry.strategy import Strategy

CORE_V1: Final = "v1"
EVENTS_V1: Final = "events.k8s.io/v1"

TO_CORE: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
FROM_CORE: Final[Mapping[str, str]] = {core: name for name, core in TO_CORE.items()}

FIELD_LABELS: Final = {
    **{
        f"involvedObject.{name}": f"involvedObject.{name}"
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": "reason",
    "reportingComponent": "reportingComponent",
    "source": "source.component|reportingComponent",
    "type": "type",
}
"""Of core/v1. What has no source is selected by the controller that reports it (`ToSelectableFields`)."""
EVENTS_FIELD_LABELS: Final = {
    **{
        f"regarding.{name}": f"regarding.{name}"
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": "reason",
    "reportingController": "reportingController",
    "type": "type",
}
"""Of events.k8s.io/v1."""

_LIMIT: Final = 128
_MESSAGE_LIMIT: Final = 1024


async def convert_events(objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
    """Events of either group under the names of one."""
    names = TO_CORE if api_version == CORE_V1 else FROM_CORE
    converted = []
    for obj in objects:
        if obj["apiVersion"] != api_version:
            obj = {names.get(name, name): value for name, value in obj.items()}  # noqa: PLW2901 (the renamed one takes its place)
            obj["apiVersion"] = api_version
        converted.append(obj)
    return converted


class EventStrategy(Strategy):
    """core/v1: the checks that events have always passed."""

    validate_name = staticmethod(path_segment_problems)
    has_generation = False
    allow_create_on_update = True
    has_dependents = False

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        return _legacy_problems(obj, controller_field="reportingComponent")

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        del old
        return self.validate(obj)


_REFERENCE: Final = {
    "Kind": "kind",
    "Namespace": "namespace",
    "Name": "name",
    "UID": "uid",
    "APIVersion": "apiVersion",
    "ResourceVersion": "resourceVersion",
    "FieldPath": "fieldPath",
}
_STRUCTS: Final[Mapping[str, Mapping[str, str]]] = {
    "involvedObject": _REFERENCE,
    "related": _REFERENCE,
    "source": {"Component": "component", "Host": "host"},
}


class StrictEventStrategy(Strategy):
    """events.k8s.io/v1: new events say more, and do not change but for their series."""

    has_generation = False
    allow_create_on_update = True
    has_dependents = False
    qualifies_finalizers = True
    error_group = ""

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        event = _as_core(obj)
        problems = _legacy_problems(event, controller_field="reportingController")
        problems += _series_problems(event)
        if not event.get("eventTime"):
            problems.append(required("eventTime"))
        kind = event.get("type", "")
        if kind not in {"Normal", "Warning"}:
            problems.append(invalid("type", "", f"has invalid value: {kind}"))
        problems += [
            invalid(member, "", "needs to be unset") for member in ("firstTimestamp", "lastTimestamp", "count") if event.get(member)
        ]
        if any((event.get("source") or {}).values()):
            problems.append(invalid("source", "", "needs to be unset"))
        return problems

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        event, before = _as_core(obj), _as_core(old)
        problems = _legacy_problems(event, controller_field="reportingController")
        if event.get("series") != before.get("series"):
            problems += _series_problems(event)
        problems += [
            invalid(member if member != "reportingComponent" else "reportingController", _shown(event, member), "field is immutable")
            for member in _FIXED
            if (event.get(member) or None) != (before.get(member) or None)
        ]
        return problems


_FIXED: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


_TEXTS: Final = frozenset({"reason", "message", "type", "action", "reportingComponent", "reportingInstance"})


def _shown(event: dict[str, Any], member: str) -> Any:
    value = event.get(member)
    if value is None and member in _TEXTS:
        return ""
    return go_struct(value, _STRUCTS[member]) if member in _STRUCTS and value is not None else value


def _as_core(obj: dict[str, Any]) -> dict[str, Any]:
    return {TO_CORE.get(name, name): value for name, value in obj.items()}


def _legacy_problems(event: dict[str, Any], *, controller_field: str) -> list[FieldError]:
    problems = []
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace", "")
    mismatch = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        if (namespace not in {"", "default"}) if not about else namespace != about:
            problems.append(mismatch)
    else:
        if not about and namespace not in {"default", "kube-system"}:
            problems.append(mismatch)
        controller = event.get("reportingComponent") or ""
        if not controller:
            problems.append(required(controller_field))
        problems += [invalid(controller_field, controller, text) for text in qualified_name_problems(controller)]
        for member, is_required, limit in (
            ("reportingInstance", True, _LIMIT),
            ("action", True, _LIMIT),
            ("reason", True, _LIMIT),
            ("message", False, _MESSAGE_LIMIT),
        ):
            value = event.get(member) or ""
            if is_required and not value:
                problems.append(required(member))
            if byte_length(value) > limit:
                problems.append(invalid(member, "", f"can have at most {limit} characters"))
    problems += [invalid("namespace", namespace, text) for text in dns_subdomain_problems(namespace)]
    return problems


def _series_problems(event: dict[str, Any]) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    problems = []
    if (series.get("count") or 0) < 2:
        problems.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        problems.append(required("series.lastObservedTime"))
    return problems
