"""The Table columns of the core group and of events (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, CREATED_AT, NAME, Column, LastingCell, Since, since
from kcp_py.apis.typed.cells import Find, Object, count, field, integer, lasting, object_at, quantity, text


def _usage(obj: Object, *, limits: bool) -> str:
    status = object_at(obj, "status")
    hard, used = object_at(status, "hard"), object_at(status, "used")
    return ", ".join(
        f"{name}: {quantity(used.get(name))}/{quantity(hard[name])}" for name in sorted(hard) if name.startswith("limits.") is limits
    )


_EVENT_MEMBERS: Final = (
    "count",
    "eventTime",
    "firstTimestamp",
    "involvedObject",
    "lastTimestamp",
    "message",
    "reportingComponent",
    "reportingInstance",
    "series",
    "source",
)


class _EventFields:
    """The columns of events, whose fields have other names in each of the two groups that serve them."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def get(self, obj: Object, name: str) -> Any:
        return obj.get(self._names.get(name, name))

    def object(self, obj: Object, name: str) -> Object:
        return object_at(obj, self._names.get(name, name))

    def first_seen(self, obj: Object) -> Since | str:
        return since(self.get(obj, "firstTimestamp") or obj.get("eventTime"))

    def last_seen(self, obj: Object) -> Since | str:
        if series := object_at(obj, "series"):
            return since(series.get("lastObservedTime"))
        last = self.get(obj, "lastTimestamp")
        return since(last) if last else self.first_seen(obj)

    def count(self, obj: Object) -> int:
        if series := object_at(obj, "series"):
            return integer(series.get("count"))
        return integer(self.get(obj, "count")) or 1

    def target(self, obj: Object) -> str:
        about = self.object(obj, "involvedObject")
        kind, name = text(about.get("kind")).lower(), text(about.get("name"))
        return f"{kind}/{name}" if name else kind

    def subobject(self, obj: Object) -> str:
        return text(self.object(obj, "involvedObject").get("fieldPath"))

    def source(self, obj: Object) -> str:
        source = self.object(obj, "source")
        component = text(source.get("component")) or text(self.get(obj, "reportingComponent"))
        instance = text(source.get("host")) or text(obj.get("reportingInstance"))
        return f"{component}, {instance}" if instance else component

    def message(self, obj: Object) -> str:
        return text(self.get(obj, "message")).strip()

    def cell(self, find: Find) -> LastingCell:
        return lasting(find, *((self._names.get(name, name),) for name in _EVENT_MEMBERS))

    def columns(self) -> tuple[Column, ...]:
        return (
            Column(
                "Last Seen",
                "string",
                "",
                "The time at which the most recent occurrence of this event was recorded.",
                0,
                self.cell(self.last_seen),
            ),
            Column("Type", "string", "", "Type of this event (Normal, Warning), new types could be added in the future", 0, field("type")),
            Column("Reason", "string", "", _EVENT_REASON, 0, field("reason")),
            Column("Object", "string", "", "The object that this event is about.", 0, self.cell(self.target)),
            Column("Subobject", "string", "", _FIELD_PATH, 1, self.cell(self.subobject)),
            Column("Source", "string", "", _EVENT_SOURCE, 1, self.cell(self.source)),
            Column("Message", "string", "", "A human-readable description of the status of this operation.", 0, self.cell(self.message)),
            Column("First Seen", "string", "", _FIRST_SEEN, 1, self.cell(self.first_seen)),
            Column("Count", "string", "", "The number of times this event has occurred.", 1, self.cell(self.count)),
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
        Column("Request", "string", "", _REQUEST, 0, lasting(lambda obj: _usage(obj, limits=False))),
        Column("Limit", "string", "", _LIMIT, 0, lasting(lambda obj: _usage(obj, limits=True))),
        AGE,
    ),
}
"""(group, plural) -> columns."""
