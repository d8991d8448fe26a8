"""Claims of persistent volumes.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePersistentVolumeClaim`, `ValidatePersistentVolumeClaimStatusUpdate`).
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, Printed, forbidden, invalid, not_supported, required
from kcp_py.apis.upstream.validation.fields import (
    NOT_POSITIVE,
    Object,
    Problems,
    amount,
    label,
    name,
    one_of,
    qualified,
    unchanged,
)
from kcp_py.apis.upstream.validation.selectors import annotation_keys, labels, selector

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_PATH: Final = Printed("{}")
"""A path in place of a value: messages print nothing of it."""
_RESIZES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
VOLUME_MODES: Final = ("Block", "Filesystem")


def claim_template(template: Object, path: str) -> Problems:
    """A template of claims in a volume."""
    metadata = template.get("metadata") or {}
    yield from annotation_keys(metadata.get("annotations"), f"{path}.metadata.annotations")
    yield from labels(metadata.get("labels"), f"{path}.metadata.labels")
    for member in metadata:
        if member not in {"annotations", "labels"}:
            yield forbidden(f"{path}.metadata.{member}", "cannot be set")
    yield from claim_spec(template.get("spec") or {}, f"{path}.spec")


def claim_spec(spec: Object, path: str) -> Problems:
    """The specification of a claim."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from selector(spec.get("selector"), f"{path}.selector")
    yield from access_modes(modes, f"{path}.accessModes")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield required(f"{path}.resources[storage]")
    else:
        wanted = amount(requests["storage"])
        if wanted.nano <= 0:
            yield invalid(f"{path}.resources[storage]", str(wanted), NOT_POSITIVE)
    if storage_class := spec.get("storageClassName"):
        yield from name(storage_class, f"{path}.storageClassName")
    if "volumeMode" in spec:
        yield from one_of(spec["volumeMode"], f"{path}.volumeMode", VOLUME_MODES, needed=False)
    yield from _sources(spec, path)
    if attributes := spec.get("volumeAttributesClassName"):
        yield from name(attributes, f"{path}.volumeAttributesClassName")


def access_modes(modes: object, path: str) -> Problems:
    """How volumes are mounted."""
    values = list(modes) if isinstance(modes, list | tuple) else []
    for mode in values:
        yield from one_of(mode, path, ACCESS_MODES, needed=False)
    if "ReadWriteOncePod" in values and any(mode != "ReadWriteOncePod" and mode in ACCESS_MODES for mode in values):
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _sources(spec: Object, path: str) -> Problems:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    yield from _source(source, f"{path}.dataSource")
    yield from _source(reference, f"{path}.dataSourceRef")
    namespace = (reference or {}).get("namespace")
    if namespace:
        yield from label(namespace, f"{path}.dataSourceRef.namespace")
    if source is None or reference is None:
        return
    if namespace:
        yield invalid(path, _PATH, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(member) != reference.get(member) for member in ("apiGroup", "kind", "name")):
        yield invalid(path, _PATH, "must match dataSourceRef")


def _source(value: Object | None, path: str) -> Problems:
    if value is None:
        return
    for member in ("name", "kind"):
        if not value.get(member):
            yield required(f"{path}.{member}")
    if not value.get("apiGroup") and value.get("kind") != "PersistentVolumeClaim":
        yield invalid(path, value.get("kind", ""), "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    elif value.get("apiGroup"):
        yield from name(value["apiGroup"], f"{path}.apiGroup")


def claim_problems(claim: Object) -> Problems:
    """A claim of a volume."""
    return claim_spec(claim.get("spec") or {}, "spec")


def changed_claim_problems(claim: Object, old: Object) -> Problems:
    """A changed claim: the volume is set once, the size and the class of attributes change once it is bound."""
    yield from claim_problems(claim)
    spec, before = claim.get("spec") or {}, old.get("spec") or {}
    bound = (claim.get("status") or {}).get("phase") == "Bound"
    yield from _changed_class_annotation(claim, old)
    if _without_mutable(spec, before, bound=bound) != _without_mutable(before, before, bound=bound):
        detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
        yield FieldError(reason="FieldValueForbidden", field="spec", detail=detail)
    new, stored, capacity = (amount(size) for size in (_size(spec), _size(before), _capacity(old)))
    if new.nano < stored.nano and new.nano <= capacity.nano:
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    yield from unchanged(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    attributes = spec.get("volumeAttributesClassName")
    if (
        attributes != before.get("volumeAttributesClassName")
        and (old.get("status") or {}).get("currentVolumeAttributesClassName") is not None
    ):
        to = "nil" if attributes is None else "empty string"
        if not attributes:
            detail = f"update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
            yield forbidden("spec.volumeAttributesClassName", detail)


def _size(spec: Object) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")


def _capacity(claim: Object) -> Any:
    return ((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")


def _changed_class_annotation(claim: Object, old: Object) -> Problems:
    new, stored = ((value["metadata"].get("annotations") or {}).get(_CLASS, "") for value in (claim, old))
    chosen, before = (claim.get("spec") or {}).get("storageClassName"), (old.get("spec") or {}).get("storageClassName")
    moved = before is None and chosen is not None and _CLASS in (old["metadata"].get("annotations") or {}) and chosen == stored
    if not moved or new not in {"", stored}:
        yield from unchanged(new, stored, f"metadata.annotations[{_CLASS}]")


def _without_mutable(spec: Object, before: Object, *, bound: bool) -> dict[str, Any]:
    """A specification without the parts that an update may change."""
    fixed = {key: value for key, value in spec.items() if key != "resources"}
    resources = {key: dict(value) if isinstance(value, dict) else value for key, value in (spec.get("resources") or {}).items()}
    if not before.get("volumeName"):
        fixed.pop("volumeName", None)
    if before.get("storageClassName") is None:
        fixed.pop("storageClassName", None)
    if bound:
        fixed.pop("volumeAttributesClassName", None)
        (resources.get("requests") or {}).pop("storage", None)
    return {**fixed, "resources": {key: value for key, value in resources.items() if value}}


def claim_status_problems(claim: Object, old: Object) -> Problems:
    """What became of a claim."""
    del old
    status = claim.get("status") or {}
    for resource, value in (status.get("capacity") or {}).items():
        yield from _not_negative(value, f"status.capacity[{resource}]")
    for resource, state in (status.get("allocatedResourceStatuses") or {}).items():
        here = "status.allocatedResourceStatuses"
        yield from _claimed_resource(resource, here)
        if state not in _RESIZES:
            yield not_supported(here, resource, _RESIZES)
    for resource, value in (status.get("allocatedResources") or {}).items():
        problems = [*_claimed_resource(resource, "status.allocatedResources")]
        yield from problems or _not_negative(value, f"status.allocatedResources[{resource}]")


def _not_negative(value: Any, path: str) -> Problems:
    whole = amount(value).nano
    if whole < 0:
        yield invalid(path, whole // 10**9, "must be a valid resource quantity")


def _claimed_resource(resource: str, path: str) -> Problems:
    problems = list(qualified(resource, path))
    yield from problems
    native = "/" not in resource or "kubernetes.io/" in resource
    if not problems and native and resource != "storage":
        yield not_supported(path, resource, ("storage",))
