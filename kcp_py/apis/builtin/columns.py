"""What `kubectl get` shows of built-in kinds (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, CREATED_AT, NAME, Column, age_of
from kcp_py.apis.typed.cells import NONE, Object, at, count, field, object_at, objects_at, quantity, text
from kcp_py.bootstrap.installed import INSTALLER, is_installed


def _source(obj: Object, _now: float) -> str:
    return INSTALLER if is_installed(obj) else NONE


def _versions(obj: Object, _now: float) -> str:
    served = [version for version in objects_at(obj, "spec", "versions") if version.get("served")]
    return ",".join(sorted(text(version.get("name")) + ("(storage)" if version.get("storage") else "") for version in served))


def _short_names(obj: Object, _now: float) -> str:
    return ",".join(map(text, at(obj, "spec", "names", "shortNames") or ()))


def _is_established(obj: Object, _now: float) -> bool:
    conditions = objects_at(obj, "status", "conditions")
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


def _role(obj: Object, _now: float) -> str:
    reference = object_at(obj, "roleRef")
    return f"{text(reference.get('kind'))}/{text(reference.get('name'))}"


def _subjects(kind: str) -> Any:
    def cell(obj: Object, _now: float) -> str:
        found = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{text(subject.get('namespace'))}/{text(subject.get('name'))}" for subject in found)
        return ", ".join(text(subject.get("name")) for subject in found)

    return cell


def _usage(obj: Object, *, limits: bool) -> str:
    status = object_at(obj, "status")
    hard, used = object_at(status, "hard"), object_at(status, "used")
    return ", ".join(
        f"{name}: {quantity(used.get(name))}/{quantity(hard[name])}" for name in sorted(hard) if name.startswith("limits.") is limits
    )


class _EventFields:
    """The same facts under the names of the two groups that serve events."""

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
_HOLDER: Final = "holderIdentity contains the identity of the holder of a current lease."
_REQUEST: Final = "Request represents a minimum amount of cpu/memory that a container may consume."
_SOURCE: Final = "How the definition came into the cluster: builtin for one that kcp-py builtin install made."
_LIMIT: Final = "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."

_BINDING: Final = (
    NAME,
    Column(
        "Role", "string", "", "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace.", 0, _role
    ),
    AGE,
    Column("Users", "string", "", "Users in the roleBinding", 1, _subjects("User")),
    Column("Groups", "string", "", "Groups in the roleBinding", 1, _subjects("Group")),
    Column("ServiceAccounts", "string", "", "ServiceAccounts in the roleBinding", 1, _subjects("ServiceAccount")),
)

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
    ("coordination.k8s.io", "leases"): (NAME, Column("Holder", "string", "", _HOLDER, 0, field("spec", "holderIdentity")), AGE),
    ("rbac.authorization.k8s.io", "roles"): (NAME, CREATED_AT),
    ("rbac.authorization.k8s.io", "clusterroles"): (NAME, CREATED_AT),
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        NAME,
        Column("Scope", "string", "", "Cluster/Namespaced", 0, field("spec", "scope")),
        Column("Versions", "string", "", "Served versions", 0, _versions),
        CREATED_AT,
        Column("Group", "string", "", "API group", 1, field("spec", "group")),
        Column("Kind", "string", "", "CustomResource kind", 1, field("spec", "names", "kind")),
        Column("ShortNames", "string", "", "Short names", 1, _short_names),
        Column("Established", "boolean", "", "Established status", 1, _is_established),
        # Not upstream's: it is for `kubectl get crd -o wide` only, so that others look as on any server.
        Column("Source", "string", "", _SOURCE, 1, _source),
    ),
    ("core.kcp.io", "logicalclusters"): (
        NAME,
        Column("Phase", "string", "", "The current phase (e.g. Scheduling, Initializing, Ready, Deleting)", 0, field("status", "phase")),
        Column("URL", "string", "", "URL to access the logical cluster", 0, field("status", "URL")),
        AGE,
    ),
}
"""(group, plural) -> columns."""
