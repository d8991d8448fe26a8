"""Embedded resources: objects inside objects, with an apiVersion, a kind and metadata of their own.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/objectmeta`, k8s.io/apimachinery `pkg/api/validation/objectmeta.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kcp_py.apimachinery import names
from kcp_py.apimachinery.fielderrors import FieldError, invalid, join_path, required
from kcp_py.apimachinery.kinds import parse_group_version

_ANNOTATIONS_MAX: Final = 256 * 1024


def is_valid(value: Any) -> bool:
    """Whether a value has the type and object metadata that an embedded resource needs. Anything but an object has another error."""
    return type(value) is not dict or not resource_errors(value, "")


def resource_errors(resource: dict[str, Any], path: str) -> list[FieldError]:
    """The problems of one embedded resource, in upstream's order; `path` is its own."""
    errors = [required(join_path(path, name)) for name in ("apiVersion", "kind") if name not in resource]
    for name, value in resource.items():
        match name:
            case "apiVersion" | "kind":
                errors.extend(_type_errors(name, value, join_path(path, name)))
            case "metadata":
                errors.extend(_metadata_errors(value, join_path(path, name)))
    return errors


def _type_errors(name: str, value: Any, path: str) -> list[FieldError]:
    if type(value) is not str:
        return [invalid(path, value, "must be a string")]
    if not value:
        return [required(path)]
    if name == "apiVersion":
        try:
            parse_group_version(value)
        except ValueError as error:
            return [invalid(path, value, str(error))]
        return []
    if problems := names.dns_1035_label_problems(value.lower()):
        return [invalid(path, value, "may have mixed case, but should otherwise match: " + ",".join(problems))]
    return []


def _metadata_errors(metadata: Any, path: str) -> list[FieldError]:
    if mistake := metadata_mistake(metadata):
        return [invalid(path, metadata, mistake)]
    if metadata is None:
        return []
    errors: list[FieldError] = []
    if generate_name := metadata.get("generateName"):
        problems = names.prefix_problems(names.path_segment_problems, generate_name)
        errors.extend(invalid(f"{path}.generateName", generate_name, problem) for problem in problems)
    if name := metadata.get("name"):
        errors.extend(invalid(f"{path}.name", name, problem) for problem in names.path_segment_problems(name))
    if namespace := metadata.get("namespace"):
        errors.extend(invalid(f"{path}.namespace", namespace, problem) for problem in names.dns_label_problems(namespace))
    for key, value in (metadata.get("labels") or {}).items():
        errors.extend(invalid(f"{path}.labels", key, problem) for problem in names.qualified_name_problems(key))
        errors.extend(invalid(f"{path}.labels", value, problem) for problem in names.label_value_problems(value))
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        errors.extend(invalid(f"{path}.annotations", key, problem) for problem in names.qualified_name_problems(key.lower()))
    if sum(names.byte_length(key) + names.byte_length(value) for key, value in annotations.items()) > _ANNOTATIONS_MAX:
        errors.append(FieldError("FieldValueTooLong", f"{path}.annotations", f"Too long: may not be more than {_ANNOTATIONS_MAX} bytes"))
    for finalizer in metadata.get("finalizers") or []:
        errors.extend(invalid(f"{path}.finalizers", finalizer, problem) for problem in names.qualified_name_problems(finalizer))
    return errors


_GO_NAMES: Final = {bool: "bool", str: "string", int: "number", float: "number", list: "array", dict: "object"}

_FIELDS: Final[dict[str, str]] = {
    "name": "string", "generateName": "string", "namespace": "string", "selfLink": "string", "uid": "types.UID",
    "resourceVersion": "string", "generation": "int64", "creationTimestamp": "v1.Time", "deletionTimestamp": "v1.Time",
    "deletionGracePeriodSeconds": "int64", "labels": "map[string]string", "annotations": "map[string]string",
    "ownerReferences": "[]v1.OwnerReference", "finalizers": "[]string", "managedFields": "[]v1.ManagedFieldsEntry",
}  # fmt: skip
"""The fields of ObjectMeta with their Go types, as decoding errors name them."""

_GO_PYTHON: Final[dict[str, type]] = {
    "string": str, "types.UID": str, "int64": int, "v1.Time": str, "map[string]string": dict, "[]string": list,
    "[]v1.OwnerReference": list, "[]v1.ManagedFieldsEntry": list,
}  # fmt: skip


def metadata_mistake(metadata: Any) -> str:
    """Why a value cannot be decoded as ObjectMeta, worded as Go's decoder words it; empty when it can."""
    if metadata is None:
        return ""
    if type(metadata) is not dict:
        return f"json: cannot unmarshal {_GO_NAMES[type(metadata)]} into Go value of type v1.ObjectMeta"
    for name, value in metadata.items():
        go_type = _FIELDS.get(name)
        if go_type is None or value is None:
            continue
        if type(value) is not _GO_PYTHON[go_type]:
            return _mistake(value, name, go_type)
        if go_type in {"map[string]string", "[]string"}:
            for element in _elements(value):
                if type(element) is not str and element is not None:
                    return _mistake(element, name, "string")
    return ""


def _elements(value: Any) -> Iterable[Any]:
    return value.values() if type(value) is dict else value


def _mistake(value: Any, name: str, go_type: str) -> str:
    shown = f"number {value}" if type(value) is float and go_type == "int64" else _GO_NAMES[type(value)]
    return f"json: cannot unmarshal {shown} into Go struct field ObjectMeta.{name} of type {go_type}"


def prune_metadata(metadata: Any, drop: Callable[[str], None]) -> None:
    """Drop the fields that ObjectMeta does not have, in place; `drop` is told each name."""
    if type(metadata) is dict and not metadata.keys() <= _FIELDS.keys():
        for name in [name for name in metadata if name not in _FIELDS]:
            del metadata[name]
            drop(name)


def has_unknown_metadata(metadata: Any) -> bool:
    """Whether `prune_metadata` would drop something."""
    return type(metadata) is dict and not metadata.keys() <= _FIELDS.keys()
