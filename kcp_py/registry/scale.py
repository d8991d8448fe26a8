"""`/scale` of custom resources: a Scale (autoscaling/v1) seen in an object, and written back into it. Pure.

Source: k8s.io/apiextensions-apiserver `pkg/registry/customresource` (`etcd.go`, `validator.go`), apimachinery `unstructured.Nested…`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import FieldError, go_value, invalid
from kcp_py.apimachinery.meta.selectors import label_selector_of
from kcp_py.golang.types import go_type

_MAX_INT32: Final = 2**31 - 1
_UNSET: Final = -(2**31)
"""The replicas of a Scale before an update if the object has no replicas. The update must set them."""

Fields = tuple[str, ...]
"""The keys on the way to a value, one within the other. Brackets have no meaning: `replicas[0]` is a key."""


class ScalePaths(NamedTuple):
    """The paths in an object of the values that its Scale shows."""

    replicas: Fields
    status_replicas: Fields
    selector: Fields
    """Path of the selector as text; empty if the CRD names no such path."""
    label_selector: Fields = ()
    """Path of the selector as an object, in Kubernetes' own kinds: a LabelSelector, or in the oldest of them a map of labels."""


class _AccessError(Exception):
    """A value is not what its path promises; the text is the one of upstream's accessors."""


def read_paths(scale: Mapping[str, Any] | None) -> ScalePaths | None:
    """The paths of a CRD version's `subresources.scale`; None where it has none."""
    if scale is None:
        return None
    return ScalePaths(_split(scale["specReplicasPath"]), _split(scale["statusReplicasPath"]), _split(scale.get("labelSelectorPath") or ""))


def show_scale(obj: Mapping[str, Any], paths: ScalePaths) -> dict[str, Any]:
    """The Scale of an object that is to be read.

    Raises:
        StatusError: 500, the object has no replicas, or something else in their place.
    """
    scale = scale_of(obj, paths)
    if _integer(obj, paths.replicas) is None:
        raise errors.internal(f"the spec replicas field {go_value(_text(paths.replicas))} does not exist")
    return scale


def scale_of(obj: Mapping[str, Any], paths: ScalePaths) -> dict[str, Any]:
    """The Scale of an object, whether or not it says how many: what an update starts from, and what it answers with.

    Raises:
        StatusError: 500, one of the values is of another type.
    """
    try:
        replicas = _integer(obj, paths.replicas)
        status_replicas = _integer(obj, paths.status_replicas) or 0
        selector = _string(obj, paths.selector) if paths.selector else _selector_text(obj, paths.label_selector)
    except _AccessError as error:
        raise StatusError(500, "", str(error)) from error
    metadata = obj["metadata"]
    shown = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if metadata.get(key)}
    wanted = _UNSET if replicas is None else _int32(replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": _int32(status_replicas), **({"selector": selector} if selector else {})},
    }


def apply_scale(scale: Mapping[str, Any], obj: dict[str, Any], paths: ScalePaths) -> None:
    """Take over, in place, what an updated Scale says: the replicas, and the resourceVersion as a condition where there is one.

    Args:
        scale: of the right types.
        obj: with the resourceVersion that it has; a Scale without one is for whatever version there is.
        paths: of the CRD.

    Raises:
        StatusError: 400 where neither object nor Scale say how many; 500 where the object has something else on the way to them.
    """
    scale_of(obj, paths)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas == _UNSET:
        raise errors.bad_request(f"the spec replicas field {go_value(_text(paths.replicas))} cannot be empty")
    parent = obj
    for depth, key in enumerate(paths.replicas[:-1], 1):
        child = parent.setdefault(key, {})
        if not isinstance(child, dict):
            raise StatusError(500, "", f"value cannot be set because {_text(paths.replicas[:depth])} is not a map[string]interface{{}}")
        parent = child
    parent[paths.replicas[-1]] = replicas
    if version := scale["metadata"].get("resourceVersion"):
        obj["metadata"]["resourceVersion"] = version


def replica_problems(obj: Mapping[str, Any], paths: ScalePaths) -> list[FieldError]:
    """The faults of the replicas in the spec of an object."""
    return _count_problems(obj, paths.replicas)


def status_problems(obj: Mapping[str, Any], paths: ScalePaths) -> list[FieldError]:
    """The faults of the replicas in the status of an object, and of its selector."""
    problems = _count_problems(obj, paths.status_replicas)
    if paths.selector:
        try:
            _string(obj, paths.selector)
        except _AccessError as error:
            problems.append(invalid(_text(paths.selector), "", str(error)))
    return problems


def _count_problems(obj: Mapping[str, Any], fields: Fields) -> list[FieldError]:
    path = _text(fields)
    try:
        count = _integer(obj, fields) or 0
    except _AccessError as error:
        return [invalid(path, 0, str(error))]
    if count < 0:
        return [invalid(path, count, "should be a non-negative integer")]
    if count > _MAX_INT32:
        return [invalid(path, count, f"should be less than or equal to {_MAX_INT32}")]
    return []


def _split(path: str) -> Fields:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _text(fields: Fields) -> str:
    return "." + ".".join(fields)


def _integer(obj: Mapping[str, Any], fields: Fields) -> int | None:
    found, value = _nested(obj, fields)
    if found and type(value) is not int:
        raise _wrong_type(fields, value, "int64")
    return value if found else None


def _selector_text(obj: Mapping[str, Any], fields: Fields) -> str | None:
    """A selector as clients write it in queries (`metav1.LabelSelectorAsSelector`); nothing where it cannot be one."""
    found, value = _nested(obj, fields)
    if not fields or not found or not isinstance(value, dict):
        return None
    only_labels = all(isinstance(member, str) for member in value.values())
    try:
        return str(label_selector_of({"matchLabels": value} if only_labels else value))
    except (AttributeError, StatusError, TypeError, ValueError):
        return None


def _string(obj: Mapping[str, Any], fields: Fields) -> str | None:
    found, value = _nested(obj, fields)
    if found and not isinstance(value, str):
        raise _wrong_type(fields, value, "string")
    return value if found else None


def _nested(obj: Mapping[str, Any], fields: Fields) -> tuple[bool, Any]:
    """Whether there is a value, and which; null on the way is as good as nothing, null at the end is a value."""
    value: Any = obj
    for depth, key in enumerate(fields, 1):
        if value is None:
            return False, None
        if not isinstance(value, dict):
            raise _wrong_type(fields[:depth], value, "map[string]interface{}")
        if key not in value:
            return False, None
        value = value[key]
    return True, value


def _wrong_type(fields: Fields, value: Any, expected: str) -> _AccessError:
    return _AccessError(f"{_text(fields)} accessor error: {_go_print(value)} is of the type {go_type(value)}, expected {expected}")


def _go_print(value: Any) -> str:
    """A value as Go's `%v` prints it."""
    match value:
        case None:
            return "<nil>"
        case str():
            return value
        case list():
            return f"[{' '.join(map(_go_print, value))}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_go_print(value[key])}' for key in sorted(value))}]"
        case _:
            return go_value(value)


def _int32(number: int) -> int:
    """As Go converts: what does not fit loses its upper half."""
    return (number + 2**31) % 2**32 - 2**31
