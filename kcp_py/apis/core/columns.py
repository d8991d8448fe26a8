"""The Table columns of the core group and of events (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, CREATED_AT, NAME, Column, age_of
from kcp_py.apis.typed.cells import Object, count, field, object_at, quantity, text


def _usage(obj: Object, *, limits: bool) -> str:
    status = object_at(obj, "status")
    hard, used = object_at(status, "hard"), object_at(status, "used")
    return ", ".join(
        f"{name}: {quantity(used.get(name))}/{quantity(hard[name])}" for name in sorted(hard) if name.startswith("limits.") is limits
    )


class _EventFields:
    """The columns of events, whose fields have other names in each of the two groups that serve them."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def get(self, obj: Object, name: str) -> Any:
        return obj.get(self._names.get(name, name))

    def first_seen(self, obj: Object, now: float) -> str:
        return age_of(self.get(obj, "firstTimestamp") or obj.get("eventTime"), now)

    def last_seen(self, obj: Object, now: float) -> str:
        if series := obj.get("series"):
            return age_of(series.get("lastObservedTime"), now)
        last = self.get(obj, "lastTimestamp")
        return age_of(last, now) if last else self.first_seen(obj, now)

    def count(self, obj: Object, _now: float) -> int:
        if series := obj.get("series"):
            return int(series.get("count") or 0)
        return int(self.get(obj, "count") or 1)

    def target(self, obj: Object, _now: float) -> str:
        about = self.get(obj, "involvedObject") or {}
        kind, name = text(about.get("kind")).lower(), text(about.get("name"))
        return f"{kind}/{name}" if name else kind

    def subobject(self, obj: Object, _now: float) -> str:
        return text((self.get(obj, "involvedObject") or {}).get("fieldPath"))

    def source(self, obj: Object, _now: float) -> str:
        source = self.get(obj, "source") or {}
        component = text(source.get("component")) or text(self.get(obj, "reportingComponent"))
        instance = text(source.get("host")) or text(obj.get("reportingInstance"))
        return f"{component}, {instance}" if instance else component

    def message(self, obj: Object, _now: float) -> str:
        return text(self.get(obj, "message")).strip()

    def columns(self) -> tuple[Column, ...]:
        return (
            Column(
                "Last Seen", "string", "", "The time at which the most recent occurrence of this event was recorded.", 0, self.last_seen
            ),
            Column("Type", "string", "", "Type of this event (Normal, Warning), new types could be added in the future", 0, field("type")),
            Column("Reason", "string", "", _EVENT_REASON, 0, field("reason")),
            Column("Object", "string", "", "The object that this event is about.", 0, self.target),
            Column("Subobject", "string", "", _FIELD_PATH, 1, self.subobject),
            Column("Source", "string", "", _EVENT_SOURCE, 1, self.source),
            Column("Message", "string", "", "A human-readable description of the status of this operation.", 0, self.message),
            Column("First Seen", "string", "", _FIRST_SEEN, 1, self.first_seen),
            Column("Count", "string", "", "The number of times this event has occurred.", 1, self.count),
            NAME._replace(priority=1),
        )


_EVENT_REASON: Final = (
    "This should be a short, machine understandable string that gives the reason for the transition into the object's current status."
)
_EVENT_SOURCE: Final = "The component reporting this event. Should be a short machine understandable string."
_FIRST_SEEN: Final = "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)"
_FIELD_PATH: Final = (
    "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, "
    "such as desiredState.manifest.containers[2]."
)
_CONFIG_DATA: Final = (
    "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte "
    "sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is "
    "enforced during validation process."
)
_DATA_OF_SECRETS: Final = (
    "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret "
    "data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in "
    "https://tools.ietf.org/html/rfc4648#section-4"
)
_TYPE_OF_SECRETS: Final = (
    "Used to facilitate programmatic handling of secret data. More info: "
    "https://kubernetes.io/docs/concepts/configuration/secret/#secret-types"
)
_REQUEST: Final = "Request represents a minimum amount of cpu/memory that a container may consume."
_LIMIT: Final = "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."

COLUMNS: Final[Mapping[tuple[str, str], Sequence[Column]]] = {
    ("", "configmaps"): (NAME, Column("Data", "string", "", _CONFIG_DATA, 0, count("data", "binaryData")), AGE),
    ("", "secrets"): (
        NAME,
        Column("Type", "string", "", _TYPE_OF_SECRETS, 0, field("type")),
        Column("Data", "string", "", _DATA_OF_SECRETS, 0, count("data")),
        AGE,
    ),
    ("", "namespaces"): (NAME, Column("Status", "string", "", "The status of the namespace", 0, field("status", "phase")), AGE),
    ("", "serviceaccounts"): (NAME, AGE),
    ("", "events"): _EventFields({}).columns(),
    ("events.k8s.io", "events"): _EventFields(
        {
            "firstTimestamp": "deprecatedFirstTimestamp",
            "lastTimestamp": "deprecatedLastTimestamp",
            "count": "deprecatedCount",
            "source": "deprecatedSource",
            "involvedObject": "regarding",
            "message": "note",
            "reportingComponent": "reportingController",
        }
    ).columns(),
    ("", "limitranges"): (NAME, CREATED_AT),
    ("", "resourcequotas"): (
        NAME,
        Column("Request", "string", "", _REQUEST, 0, lambda obj, _now: _usage(obj, limits=False)),
        Column("Limit", "string", "", _LIMIT, 0, lambda obj, _now: _usage(obj, limits=True)),
        AGE,
    ),
}
"""(group, plural) -> columns."""
