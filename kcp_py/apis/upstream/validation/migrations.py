"""Rules of StorageVersionMigrations, and those of standard conditions.

Source: kubernetes `pkg/apis/storagemigration/validation`, k8s.io/apimachinery `pkg/apis/meta/v1/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import Printed, duplicate, invalid, not_supported, required, too_long
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import IMMUTABLE, Object, Problems, name, qualified
from kcp_py.apis.upstream.validation.structs import Struct, printed
from kcp_py.golang.json import go_json

_RESOURCE: Final = Struct({"group": ("group", ""), "resource": ("resource", "")})
_SPEC: Final = Struct({"Resource": ("resource", _RESOURCE)})
_VERSION: Final = re.compile("[1-9][0-9]*")
_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_MISMATCH: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and "
    "must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or "
    f"'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_MEMBERS: Final = ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024


def migration_problems(obj: Object) -> Problems:
    """Of a new StorageVersionMigration."""
    resource = obj["spec"].get("resource") or {}
    path, plural = "spec.resource.resource", resource.get("resource", "")
    if not plural:
        yield required(path, "resource is required to be set")
    else:
        yield from name(plural, path, names.dns_1035_label_problems)
    if group := resource.get("group", ""):
        yield from name(group, "spec.resource.group")


def changed_migration_problems(obj: Object, old: Object) -> Problems:
    """Of a changed one."""
    yield from migration_problems(obj)
    if obj["spec"] != old.get("spec"):
        yield invalid("spec", printed(obj["spec"], _SPEC), IMMUTABLE)


def migration_status_problems(obj: Object, old: Object) -> Problems:
    """Of a status. Its version and an end, once written, stay."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    path, version = "status.resourceVersion", status.get("resourceVersion", "")
    if version and not _VERSION.fullmatch(version):
        yield invalid(path, version, f"resource version is not well formed: {version}")
    conditions = status.get("conditions") or []
    yield from standard_condition_problems(conditions, "status.conditions")
    if before.get("resourceVersion") and before["resourceVersion"] != version:
        yield invalid(path, version, IMMUTABLE)
    if _is_true(status, "Succeeded") and _is_true(status, "Failed"):
        yield invalid("status.conditions", _shown(conditions), "Both success and failed conditions cannot be true at the same time")
    for kind, noun in (("Succeeded", "Success"), ("Failed", "Failed")):
        if _is_true(before, kind) and not _is_true(status, kind):
            yield invalid("status.conditions", _shown(conditions), f"{noun} condition cannot be set to false once it is true")


def _shown(conditions: Sequence[Object]) -> Printed:
    """Conditions with their fields in the order of the type."""
    return Printed(go_json([{member: one[member] for member in _MEMBERS if member in one} for one in conditions]))


def _is_true(status: Object, kind: str) -> bool:
    found: Object = next((one for one in status.get("conditions") or () if one.get("type") == kind), {})
    return found.get("status") == "True"


def standard_condition_problems(conditions: Sequence[Object], path: str) -> Problems:
    """Of conditions of the common type."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here, kind = f"{path}[{index}]", condition.get("type", "")
        if kind in seen:
            yield duplicate(here, kind)
        seen.add(kind)
        yield from _condition_problems(condition, kind, here)


def _condition_problems(condition: Object, kind: str, path: str) -> Problems:
    if not kind:
        yield required(f"{path}.type", "is required")
    else:
        yield from qualified(kind, f"{path}.type")
    status, reason = condition.get("status", ""), condition.get("reason", "")
    if not status:
        yield required(f"{path}.status")
    elif status not in _STATUSES:
        yield not_supported(f"{path}.status", status, _STATUSES)
    if (generation := condition.get("observedGeneration", 0)) < 0:
        yield invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero")
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime")
    if not reason:
        yield required(f"{path}.reason")
    else:
        if not re.fullmatch(_REASON, reason):
            yield invalid(f"{path}.reason", reason, _REASON_MISMATCH)
        if names.byte_length(reason) > _MAX_REASON:
            yield too_long(f"{path}.reason", _MAX_REASON)
    if names.byte_length(condition.get("message", "")) > _MAX_MESSAGE:
        yield too_long(f"{path}.message", _MAX_MESSAGE)
