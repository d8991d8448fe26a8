"""Persistent volumes.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePersistentVolumeSpec`, `ValidatePersistentVolumeUpdate`).
"""

from __future__ import annotations

import posixpath
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, not_supported, required
from kcp_py.apis.upstream.validation.claims import VOLUME_MODES, access_modes
from kcp_py.apis.upstream.validation.drivers import SHOWN_SOURCES, driver_source
from kcp_py.apis.upstream.validation.fields import IMMUTABLE, NOT_POSITIVE, Object, Problems, amount, name, one_of, unchanged
from kcp_py.apis.upstream.validation.selectors import node_selector

_SOURCES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi", "cinder",
    "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local",
    "storageos", "csi",
)  # fmt: skip
"""In the order in which they are looked at."""
_MISSPELT: Final = {"cephfs": "cephFS"}
"""Names that the message about a second source has."""
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_INLINE: Final = "in the context of inline volumes"
_TWO_SOURCES: Final = "may not specify more than 1 volume type"


def volume_problems(volume: Object) -> Problems:
    """A persistent volume."""
    yield from volume_spec(volume.get("spec") or {}, "spec", volume["metadata"].get("name", ""), inline=False)


def volume_spec(spec: Object, path: str, volume: str, *, inline: bool) -> Problems:
    """The specification of a volume.

    Args:
        spec: the specification.
        path: of the specification.
        volume: the name of the persistent volume.
        inline: whether it is part of an attachment, where it describes a volume of a pod.
    """
    if inline:
        for member in ("claimRef", "capacity"):
            if spec.get(member):
                yield forbidden(f"{path}.{member}", f"may not be specified {_INLINE}")
        if "csi" not in spec:
            yield required(f"{path}.csi", f"has to be specified {_INLINE}")
    if not spec.get("accessModes"):
        yield required(f"{path}.accessModes")
    yield from access_modes(spec.get("accessModes") or (), f"{path}.accessModes")
    if not inline:
        yield from _capacity(spec.get("capacity"), f"{path}.capacity")
    policy, here = spec.get("persistentVolumeReclaimPolicy"), f"{path}.persistentVolumeReclaimPolicy"
    if policy and inline and policy != "Retain":
        yield forbidden(here, f"may only be Retain {_INLINE}")
    elif policy and not inline:
        yield from one_of(policy, here, _RECLAIM_POLICIES, needed=False)
    if (affinity := spec.get("nodeAffinity")) is not None:
        if inline:
            yield forbidden(f"{path}.nodeAffinity", f"may not be specified {_INLINE}")
        elif affinity.get("required") is None:
            yield required(f"{path}.nodeAffinity.required", "must specify required node constraints")
        else:
            yield from node_selector(affinity["required"], f"{path}.nodeAffinity.required")
    yield from _sources(spec, path, volume)
    if posixpath.normpath((spec.get("hostPath") or {}).get("path") or ".") in {"/", "//"} and policy == "Recycle":
        yield forbidden(here, "may not be 'recycle' for a hostPath mount of '/'")
    yield from _classes(spec, path, inline=inline)


def _capacity(values: Object | None, path: str) -> Problems:
    if not values:
        yield required(path)
    if not values or "storage" not in values or len(values) > 1:
        yield not_supported(path, values, ("storage",))
    for resource, text in (values or {}).items():
        value = amount(text)
        if value.nano < 0:
            yield invalid(f"{path}[{resource}]", value.nano // 10**9, "must be a valid resource quantity")
        if value.nano <= 0:
            yield invalid(f"{path}[{resource}]", str(value), NOT_POSITIVE)


def _sources(spec: Object, path: str, volume: str) -> Problems:
    given = [member for member in _SOURCES if member in spec]
    if not given:
        yield required(path, "must specify a volume type")
        return
    for index, member in enumerate(given):
        if index and member != "flexVolume":
            yield forbidden(f"{path}.{_MISSPELT.get(member, member)}", _TWO_SOURCES)
            continue
        yield from driver_source(member, spec[member] or {}, f"{path}.{SHOWN_SOURCES.get(member, member)}", volume=volume)
        if member == "local" and spec.get("nodeAffinity") is None:
            yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")


def _classes(spec: Object, path: str, *, inline: bool) -> Problems:
    if spec.get("storageClassName"):
        if inline:
            yield forbidden(f"{path}.storageClassName", f"may not be specified {_INLINE}")
        else:
            yield from name(spec["storageClassName"], f"{path}.storageClassName")
    if (mode := spec.get("volumeMode")) is not None:
        if not inline:
            yield from one_of(mode, f"{path}.volumeMode", VOLUME_MODES, needed=False)
        elif mode != "Filesystem":
            yield forbidden(f"{path}.volumeMode", f"may not specify volumeMode other than Filesystem {_INLINE}")
    attributes, here = spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName"
    if attributes is None or inline:
        return
    if not attributes:
        yield required(here, "an empty string is disallowed")
    else:
        yield from name(attributes, here)
    if "csi" not in spec:
        yield required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def changed_volume_problems(volume: Object, old: Object) -> Problems:
    """A changed persistent volume."""
    yield from volume_problems(volume)
    spec, before = volume.get("spec") or {}, old.get("spec") or {}
    new, stored = _source_of(spec), _source_of(before)
    if "controllerExpandSecretRef" not in (stored.get("csi") or {}) and "csi" in stored and "csi" in new:
        new["csi"] = {key: value for key, value in new["csi"].items() if key != "controllerExpandSecretRef"}
    if new != stored:
        detail = "spec.persistentvolumesource is immutable after creation\n"
        yield FieldError(reason="FieldValueForbidden", field="spec.persistentvolumesource", detail=detail)
    yield from unchanged(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    affinity = before.get("nodeAffinity")
    if affinity is not None and spec.get("nodeAffinity") != affinity:
        yield invalid("nodeAffinity", spec.get("nodeAffinity"), f"{IMMUTABLE}, except for updating from beta label to GA")
    if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        yield forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _source_of(spec: Object) -> dict[str, Any]:
    return {member: spec[member] for member in _SOURCES if member in spec}
