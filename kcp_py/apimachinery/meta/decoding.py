"""ObjectMeta as Go reads and writes it: wrongly typed fields are refused with its message, unknown and empty fields are dropped.

Source: apiextensions-apiserver `pkg/apiserver/schema/objectmeta`, apimachinery `pkg/apis/meta/v1/types.go`, and the texts of
sigs.k8s.io/json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from kcp_py.apimachinery.meta import timestamps
from kcp_py.golang.types import json_type

OWNER_REFERENCE_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
"""The fields of an owner reference in the order in which upstream writes them; the first four are always written."""
_MANAGED_FIELDS: Final = frozenset({"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"})
_INT64_MAX: Final = 2**63 - 1
_TIME_LENGTH: Final = len("2006-01-02T15:04:05Z")
_LONGEST_TIME: Final = 40
"""Characters of a time that is worth remembering."""

_Check = Callable[[Any, str], str]


def mismatch(value: Any, struct_field: str, go_type: str) -> str:
    """The decoder's message about a value of the wrong type for a field such as `ObjectMeta.metadata.name`."""
    return f"json: cannot unmarshal {json_type(value)} into Go struct field {struct_field} of type {go_type}"


def _string(value: Any, where: str) -> str:
    return "" if value is None or isinstance(value, str) else mismatch(value, where, "string")


def _uid(value: Any, where: str) -> str:
    return "" if value is None or isinstance(value, str) else mismatch(value, where, "types.UID")


def _bool(value: Any, where: str) -> str:
    return "" if value is None or isinstance(value, bool) else mismatch(value, where, "bool")


def _int64(value: Any, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return mismatch(value, where, "int64")
    if isinstance(value, float) or not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        return f"json: cannot unmarshal number {value} into Go struct field {where} of type int64"
    return ""


def _time(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return mismatch(value, where, "string")
    return _time_problem(value) if len(value) <= _LONGEST_TIME else _time_problem.__wrapped__(value)


@lru_cache(maxsize=1024)
def _time_problem(text: str) -> str:
    try:
        timestamps.parse_time(text)
    except ValueError as error:
        return str(error)
    return ""


def _string_map(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, dict):
        return mismatch(value, where, "map[string]string")
    for item in value.values():
        if not isinstance(item, str) and item is not None:
            return mismatch(item, where, "string")
    return ""


def _string_list(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, list):
        return mismatch(value, where, "[]string")
    for item in value:
        if not isinstance(item, str) and item is not None:
            return mismatch(item, where, "string")
    return ""


def _struct_list(value: Any, where: str, go_type: str, fields: Mapping[str, _Check]) -> str:
    if value is None:
        return ""
    if not isinstance(value, list):
        return mismatch(value, where, f"[]v1.{go_type}")
    path = where.partition(".")[2]
    for item in value:
        if item is None:
            continue
        if not isinstance(item, dict):
            return mismatch(item, where, f"v1.{go_type}")
        for field, content in item.items():
            check = fields.get(field)
            if check is None or (check is _string and isinstance(content, str)):
                continue
            if problem := check(content, f"{go_type}.{path}.{field}"):
                return problem
    return ""


def _owner_references(value: Any, where: str) -> str:
    return _struct_list(value, where, "OwnerReference", _OWNER_REFERENCE_CHECKS)


def _managed_fields(value: Any, where: str) -> str:
    return _struct_list(value, where, "ManagedFieldsEntry", _MANAGED_FIELDS_CHECKS)


_OWNER_REFERENCE_CHECKS: Final[dict[str, _Check]] = {
    "apiVersion": _string,
    "kind": _string,
    "name": _string,
    "uid": _uid,
    "controller": _bool,
    "blockOwnerDeletion": _bool,
}
_MANAGED_FIELDS_CHECKS: Final[dict[str, _Check]] = {
    "manager": _string,
    "operation": _string,
    "apiVersion": _string,
    "time": _time,
    "fieldsType": _string,
    "subresource": _string,
}
_CHECKS: Final[dict[str, _Check]] = {
    "name": _string,
    "generateName": _string,
    "namespace": _string,
    "selfLink": _string,
    "uid": _uid,
    "resourceVersion": _string,
    "generation": _int64,
    "creationTimestamp": _time,
    "deletionTimestamp": _time,
    "deletionGracePeriodSeconds": _int64,
    "labels": _string_map,
    "annotations": _string_map,
    "ownerReferences": _owner_references,
    "finalizers": _string_list,
    "managedFields": _managed_fields,
}
_TIMES: Final = frozenset({"creationTimestamp", "deletionTimestamp"})
_MAPS: Final = frozenset({"labels", "annotations"})
_STRINGS: Final = frozenset(field for field, check in _CHECKS.items() if check in {_string, _uid})


def type_problem(obj: Mapping[str, Any], kind: str = "PartialObjectMetadata") -> str | None:
    """The first wrongly typed field of the object's `metadata`, as Go's decoder words it; None when all types are right.

    Args:
        obj: decoded.
        kind: the type that Go decodes it as.
    """
    meta = obj.get("metadata")
    if meta is None:
        return None
    if not isinstance(meta, dict):
        return mismatch(meta, f"{kind}.metadata", "v1.ObjectMeta")
    first: str | None = None
    for field, value in meta.items():
        if field in _STRINGS and isinstance(value, str):
            continue
        check = _CHECKS.get(field)
        if check is not None and (problem := check(value, f"ObjectMeta.metadata.{field}")):
            if check is _time:
                # Go's decoder stops at a time that it cannot read, and forgets what it had found before.
                return problem
            first = first or problem
    return first


def is_usual(meta: Mapping[str, Any]) -> bool:
    """Whether metadata are like those of most objects: then `type_problem` finds nothing, and `prune_object_meta` changes nothing.

    One pass answers for both. False says nothing: lists of owners, for example, are left to them.
    """
    for field, value in meta.items():
        kind = type(value)
        if kind is str:
            if field in _STRINGS:
                if not value:
                    return False
            elif field not in _TIMES or len(value) != _TIME_LENGTH or value[-1] != "Z" or _time_problem(value):
                return False
        elif kind is dict:
            if not value or field not in _MAPS:
                return False
            for item in value.values():
                if type(item) is not str:
                    return False
        elif kind is int:
            if field != "generation" or not 0 < value <= _INT64_MAX:
                return False
        elif field != "managedFields" or kind is not list or not _are_usual_entries(value):
            return False
    return True


def _are_usual_entries(entries: list[Any]) -> bool:
    for entry in entries:
        if type(entry) is not dict:
            return False
        for name, value in entry.items():
            if type(value) is not str:
                if name != "fieldsV1":
                    return False
            elif name == "time":
                if len(value) != _TIME_LENGTH or _time_problem(value):
                    return False
            elif name not in _MANAGED_FIELDS:
                return False
    return True


def drop_malformed_fields(meta: dict[str, Any]) -> list[str]:
    """Drop every wrongly typed field from `meta`, in place, as upstream does for what it reads from storage; returns their names."""
    if is_usual(meta):
        return []
    dropped = [
        field
        for field, value in meta.items()
        if not (field in _STRINGS and isinstance(value, str)) and (check := _CHECKS.get(field)) is not None and check(value, field)
    ]
    for field in dropped:
        del meta[field]
    return dropped


def prune_object_meta(meta: dict[str, Any]) -> list[str]:
    """Make `meta` what Go writes after reading it, in place: no unknown fields, no empty ones, times in UTC.

    `managedFields` stays, even an empty list, which has a meaning for the tracking of owners. The types must be right (`type_problem`).

    Returns:
        The unknown fields, relative to the metadata, such as `foo` or `ownerReferences[0].bar`.
    """
    unknown: list[str] = []
    drop: list[str] = []
    for field, value in meta.items():
        if field not in _CHECKS:
            unknown.append(field)
            drop.append(field)
        elif not value:
            # 0 seconds of grace are written, because upstream keeps a pointer there.
            if value is None or field not in {"deletionGracePeriodSeconds", "managedFields"}:
                drop.append(field)
        elif field in _STRINGS:
            continue
        elif field in _MAPS:
            if None in value.values():
                meta[field] = {key: item or "" for key, item in value.items()}
        elif field == "finalizers":
            if None in value:
                meta[field] = [item or "" for item in value]
        elif field == "managedFields":
            for index, entry in enumerate(value):
                if isinstance(entry, dict) and not entry.keys() <= _MANAGED_FIELDS:
                    foreign = [name for name in entry if name not in _MANAGED_FIELDS]
                    unknown.extend(f"managedFields[{index}].{name}" for name in foreign)
                    for name in foreign:
                        del entry[name]
        elif field == "ownerReferences":
            meta[field] = [_pruned_owner_reference(item, index, unknown) for index, item in enumerate(value)]
        elif field in _TIMES and (len(value) != _TIME_LENGTH or value[-1] != "Z"):
            meta[field] = timestamps.normalize_time(value)
    for field in drop:
        del meta[field]
    return unknown


def _pruned_owner_reference(reference: dict[str, Any] | None, index: int, unknown: list[str]) -> dict[str, Any]:
    if reference is None:
        reference = {}
    unknown.extend(f"ownerReferences[{index}].{field}" for field in reference if field not in _OWNER_REFERENCE_CHECKS)
    pruned = {field: reference.get(field) or "" for field in OWNER_REFERENCE_FIELDS[:4]}
    pruned.update({field: reference[field] for field in OWNER_REFERENCE_FIELDS[4:] if reference.get(field) is not None})
    return pruned
