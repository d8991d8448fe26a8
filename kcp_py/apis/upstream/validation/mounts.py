"""Mounts and devices of containers.

Source: kubernetes `pkg/apis/core/validation` (`ValidateVolumeMounts`, `ValidateVolumeDevices`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid, not_found, not_supported, required
from kcp_py.apis.upstream.validation.fields import Object, Problems, descending

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_BY_CLAIM: Final = ("persistentVolumeClaim", "ephemeral")


def mounts(container: Object, volumes: Mapping[str, Object], path: str) -> Problems:
    """`volumeMounts` of a container. `volumes` are the valid volumes of the pod by name."""
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    taken = set(devices.values())
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, volume, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not volume:
            yield required(f"{here}.name")
        if volume not in volumes:
            yield not_found(f"{here}.name", volume)
        if not target:
            yield required(f"{here}.mountPath")
        if target in seen:
            yield invalid(f"{here}.mountPath", target, "must be unique")
        seen.add(target)
        if volume in devices:
            yield invalid(f"{here}.name", volume, "must not already exist in volumeDevices")
        if target in taken:
            yield invalid(f"{here}.mountPath", target, "must not already exist as a path in volumeDevices")
        yield from _subpaths(mount, here, path)
        yield from _propagation(mount, container, path)
        yield from _recursive(mount, f"{path}.recursiveReadOnly")


def _subpaths(mount: Object, here: str, path: str) -> Problems:
    """Problems of paths inside the volume. Upstream names some of them without the position of the mount."""
    inside, expression = mount.get("subPath"), mount.get("subPathExpr")
    if inside:
        yield from descending(inside, f"{path}.subPath")
    if expression:
        if inside:
            yield invalid(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from descending(expression, f"{path}.subPathExpr")


def _propagation(mount: Object, container: Object, path: str) -> Problems:
    mode = mount.get("mountPropagation")
    if mode is None:
        return
    here = f"{path}.mountPropagation"
    if mode not in _PROPAGATIONS:
        yield not_supported(here, mode, _PROPAGATIONS)
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        yield forbidden(here, "Bidirectional mount propagation is available only to privileged containers")


def _recursive(mount: Object, path: str) -> Problems:
    match mount.get("recursiveReadOnly"):
        case None | "Disabled":
            pass
        case "Enabled" | "IfPossible":
            if not mount.get("readOnly"):
                yield forbidden(path, "may only be specified when readOnly is true")
            if mount.get("mountPropagation", "None") != "None":
                yield forbidden(path, "may only be specified when mountPropagation is None or not specified")
        case other:
            yield not_supported(path, other, ("Disabled", "Enabled", "IfPossible"))


def devices(container: Object, volumes: Mapping[str, Object], path: str) -> Problems:
    """`volumeDevices` of a container."""
    mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts") or ()}
    taken = set(mounted.values())
    names: set[str] = set()
    targets: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        here, volume, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        source = volumes.get(volume)
        if not volume:
            yield required(f"{here}.name")
        if volume in names:
            yield invalid(f"{here}.name", volume, "must be unique")
        if source is not None and not any(member in source for member in _BY_CLAIM):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{here}.name", volume, text)
        if source is None:
            yield not_found(f"{here}.name", volume)
        if not target:
            yield required(f"{here}.devicePath")
        if target in targets:
            yield invalid(f"{here}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            yield invalid(f"{here}.devicePath", target, "can not contain backsteps ('..')")
        else:
            targets.add(target)
        if volume in mounted:
            yield invalid(f"{here}.name", volume, "must not already exist in volumeMounts")
        if target in taken:
            yield invalid(f"{here}.devicePath", target, "must not already exist as a path in volumeMounts")
        if volume:
            names.add(volume)
