"""What `kubectl get` shows of volumes, claims and classes of storage (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kcp_py.apimachinery.meta.table import AGE, DEFAULT_COLUMNS, NAME, Column
from kcp_py.apis.typed.cells import (
    NONE,
    UNSET,
    Object,
    at,
    column,
    count_at,
    field,
    flag,
    joined,
    lasting,
    list_at,
    object_at,
    objects_at,
    quantity,
    text,
)

_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _modes(obj: Object, *path: str) -> str:
    given = list_at(obj, *path)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Object) -> str:
    return "Terminating" if at(obj, "metadata", "deletionTimestamp") else text(at(obj, "status", "phase"))


def _class(obj: Object) -> str:
    annotated = at(obj, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class")
    return text(at(obj, "spec", "storageClassName") if annotated is None else annotated)


def _claim(obj: Object) -> str:
    reference = object_at(obj, "spec", "claimRef")
    return f"{text(reference.get('namespace'))}/{text(reference.get('name'))}" if reference else ""


def _claimed(obj: Object) -> str:
    return quantity(at(obj, "status", "capacity", "storage")) if at(obj, "spec", "volumeName") else ""


def _claimed_modes(obj: Object) -> str:
    return _modes(obj, "status", "accessModes") if at(obj, "spec", "volumeName") else ""


def _class_name(obj: Object) -> str:
    name = text(at(obj, "metadata", "name"))
    annotations = object_at(obj, "metadata", "annotations")
    return f"{name} (default)" if any(annotations.get(key) == "true" for key in _DEFAULT_CLASS) else name


def _audiences(obj: Object) -> str:
    if at(obj, "spec", "tokenRequests") is None:
        return UNSET
    return joined(request.get("audience") for request in objects_at(obj, "spec", "tokenRequests"))


_CLASSES: Final = (
    Column("StorageClass", "string", "", "StorageClass of the pv", 0, lasting(_class)),
    Column(
        "VolumeAttributesClass", "string", "", "VolumeAttributesClass of the pv", 0, field("spec", "volumeAttributesClassName", none=UNSET)
    ),
)
_VOLUME_MODE: Final = column("VolumeMode", field("spec", "volumeMode", none=UNSET), wide=True)

STORAGE_COLUMNS: Final[Mapping[tuple[str, str], Sequence[Column]]] = {
    ("", "persistentvolumes"): (
        NAME,
        column("Capacity", lambda obj: quantity(at(obj, "spec", "capacity", "storage"))),
        column("Access Modes", lambda obj: _modes(obj, "spec", "accessModes")),
        column("Reclaim Policy", field("spec", "persistentVolumeReclaimPolicy")),
        column("Status", _phase),
        column("Claim", _claim),
        *_CLASSES,
        column("Reason", field("status", "reason")),
        AGE,
        _VOLUME_MODE,
    ),
    ("", "persistentvolumeclaims"): (
        NAME,
        column("Status", _phase),
        column("Volume", field("spec", "volumeName")),
        column("Capacity", _claimed),
        column("Access Modes", _claimed_modes),
        *(entry._replace(description=entry.description + "c") for entry in _CLASSES),
        AGE,
        _VOLUME_MODE,
    ),
    ("storage.k8s.io", "csidrivers"): (
        NAME,
        column("AttachRequired", flag("spec", "attachRequired", missing=True), "boolean"),
        column("PodInfoOnMount", flag("spec", "podInfoOnMount"), "boolean"),
        column("StorageCapacity", flag("spec", "storageCapacity"), "boolean"),
        column("TokenRequests", _audiences),
        column("RequiresRepublish", flag("spec", "requiresRepublish"), "boolean"),
        column("Modes", lambda obj: joined(list_at(obj, "spec", "volumeLifecycleModes"), NONE)),
        AGE,
    ),
    ("storage.k8s.io", "csinodes"): (NAME, column("Drivers", count_at("spec", "drivers"), "integer"), AGE),
    ("storage.k8s.io", "csistoragecapacities"): DEFAULT_COLUMNS,
    ("storage.k8s.io", "storageclasses"): (
        NAME._replace(cell=lasting(_class_name)),
        column("Provisioner", field("provisioner")),
        column("ReclaimPolicy", field("reclaimPolicy", none="Delete")),
        column("VolumeBindingMode", field("volumeBindingMode", none="Immediate")),
        column("AllowVolumeExpansion", flag("allowVolumeExpansion")),
        AGE,
    ),
    ("storage.k8s.io", "volumeattachments"): (
        NAME,
        Column("Attacher", "string", "name", "", 0, field("spec", "attacher")),
        column("PV", field("spec", "source", "persistentVolumeName")),
        column("Node", field("spec", "nodeName")),
        column("Attached", flag("status", "attached"), "boolean"),
        AGE,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): (NAME, column("DriverName", field("driverName")), AGE),
}
"""(group, plural) -> columns."""
