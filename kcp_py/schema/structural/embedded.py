"""Embedded resources: objects inside objects, with an apiVersion, a kind and metadata of their own.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/objectmeta`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid, join_path, required
from kcp_py.apimachinery.kinds import parse_group_version
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.objectmeta import prune_object_meta, type_problem, validate_object_meta
from kcp_py.schema.structural.nodes import Node

_METADATA_FIELDS: Final = frozenset(
    {
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields",
    }
)  # fmt: skip


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


def type_error(resource: dict[str, Any], path: str) -> FieldError | None:
    """The first thing that has the wrong type for its place, if any; upstream looks at nothing else then."""
    for name, value in resource.items():
        if name in {"apiVersion", "kind"} and type(value) is not str:
            return invalid(join_path(path, name), value, "must be a string")
        if name == "metadata" and (mistake := metadata_mistake(value)):
            return invalid(join_path(path, name), value, mistake)
    return None


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
    if problem := metadata_mistake(metadata):
        return [invalid(path, metadata, problem)]
    known = dict(metadata or {})
    prune_object_meta(known)
    # An embedded object may be without a name, and in a namespace or not.
    known.setdefault("name", "fakename")
    return validate_object_meta(known, namespaced=bool(known.get("namespace")), validate_name=names.path_segment_problems, path=path)


def metadata_mistake(metadata: Any) -> str:
    """Why a value cannot be decoded as ObjectMeta, as Go's decoder words it; empty when it can."""
    problem = type_problem({"metadata": metadata})
    if problem is None:
        return ""
    # Upstream decodes it on its own.
    return problem.replace("struct field PartialObjectMetadata.metadata of", "value of").replace(
        "field ObjectMeta.metadata.", "field ObjectMeta."
    )


def prune_metadata(metadata: Any, drop: Callable[[str], None]) -> None:
    """Drop the fields that ObjectMeta does not have, of which `drop` is told each name, and those that it does not write; in place."""
    if is_loose_metadata(metadata):
        for name in [name for name, value in metadata.items() if name not in _METADATA_FIELDS or _is_unwritten(name, value)]:
            del metadata[name]
            if name not in _METADATA_FIELDS:
                drop(name)


def is_loose_metadata(metadata: Any) -> bool:
    """Whether `prune_metadata` would drop something."""
    return type(metadata) is dict and (
        not metadata.keys() <= _METADATA_FIELDS or any(_is_unwritten(name, value) for name, value in metadata.items())
    )


def _is_unwritten(name: str, value: Any) -> bool:
    """Whether a field is read into a struct and not written again: null or empty. A value of the wrong type is not read at all."""
    return value is None or (not value and type(value) is not bool and name != "deletionGracePeriodSeconds")


def first_type_error(node: Node, value: Any, path: str) -> FieldError | None:
    """The first embedded resource in a value with something of the wrong type, if any: such a value is not decoded."""
    parts: list[tuple[str, Node | None, Any]]
    if type(value) is dict:
        if node.embedded and (error := type_error(value, path)):
            return error
        properties = node.properties
        parts = [
            (join_path(path, name) if name in properties else f"{path}[{name}]", node.field(name), part) for name, part in value.items()
        ]
    elif type(value) is list:
        parts = [(f"{path}[{index}]", node.items, part) for index, part in enumerate(value)]
    else:
        return None
    for part_path, child, part in parts:
        if child is not None and (error := first_type_error(child, part, part_path)):
            return error
    return None
