"""Claims of persistent volumes.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePersistentVolumeClaimSpec`).
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid, required
from kcp_py.apis.upstream.validation.fields import NOT_POSITIVE, Object, Problems, amount, name, one_of
from kcp_py.apis.upstream.validation.selectors import annotation_keys, labels, selector

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
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
    yield from _source(spec.get("dataSource"), f"{path}.dataSource")
    yield from _source(spec.get("dataSourceRef"), f"{path}.dataSourceRef")
    if attributes := spec.get("volumeAttributesClassName"):
        yield from name(attributes, f"{path}.volumeAttributesClassName")


def access_modes(modes: object, path: str) -> Problems:
    """How volumes are mounted."""
    values = list(modes) if isinstance(modes, list | tuple) else []
    for mode in values:
        yield from one_of(mode, path, ACCESS_MODES, needed=False)
    if "ReadWriteOncePod" in values and len(values) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


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
