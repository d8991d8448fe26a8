"""Ephemeral containers and resources of pods, which change through subresources of their own.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePodEphemeralContainersUpdate`, `ValidatePodResize`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid
from kcp_py.apis.upstream.creation import quality_of_service
from kcp_py.apis.upstream.validation.fields import Object, Problems
from kcp_py.apis.upstream.validation.pods import MIRROR, common_problems

_WHOLE: Final = "[]"
"""How upstream names the field of a problem of the whole object."""
_LISTS: Final = ("initContainers", "containers")
_KINDS: Final = ("requests", "limits")
_MUTABLE: Final = ("cpu", "memory")


def ephemeral_container_problems(pod: Object, old: Object) -> Problems:
    """A pod with other ephemeral containers than before: they can be added only."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        yield forbidden(_WHOLE, "static pods do not support ephemeral containers")
        return
    yield from common_problems(pod)
    path = "spec.ephemeralContainers"
    added = {one.get("name"): one for one in pod["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        name = before["name"]
        if name not in added:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif added[name] != before:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')


def resize_problems(pod: Object, old: Object) -> Problems:
    """A pod with other resources than before."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        yield forbidden(_WHOLE, "static pods cannot be resized")
        return
    if (old["spec"].get("os") or {}).get("name") == "windows":
        yield forbidden(_WHOLE, "windows pods cannot be resized")
        return
    yield from common_problems(pod)
    status = old.get("status") or {}
    if (status.get("qosClass") or quality_of_service(old)) != quality_of_service(pod):
        yield invalid("spec", status.get("qosClass") or "", "Pod QOS Class may not change as a result of resizing")
    if not _is_supported(status):
        yield forbidden("spec", "Pod running on node without support for resize")
    yield from _pod_resources(pod["spec"].get("resources"), old["spec"].get("resources"))
    order = list(_order(pod["spec"], old["spec"]))
    yield from order
    if order:
        return
    for member in _LISTS:
        for index, before in enumerate(old["spec"].get(member) or ()):
            new = pod["spec"][member][index].get("resources") or {}
            yield from _removed(new, before.get("resources") or {}, f"spec.{member}[{index}].resources", "resource")
    for member in reversed(_LISTS):
        for index, before in enumerate(old["spec"].get(member) or ()):
            yield from _other_changes(pod["spec"][member][index], before, member, index)


def _is_supported(status: Object) -> bool:
    """Whether the node of a pod reports resources. A pod that does not run yet can have any node."""
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _pod_resources(new: Object | None, old: Object | None) -> Problems:
    if not _is_set(new) and not _is_set(old):
        return
    if old is not None:
        for kind in _KINDS:
            if not (old.get(kind) or {}).keys() <= ((new or {}).get(kind) or {}).keys():
                yield forbidden(f"spec.resources.{kind}", f"pod-level resource {kind} cannot be removed")
    if _fixed(new or {}) != _fixed(old or {}):
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _is_set(resources: Object | None) -> bool:
    return any((resources or {}).get(kind) for kind in _KINDS)


def _order(new: Object, old: Object) -> Problems:
    for member in reversed(_LISTS):
        containers, before = new.get(member) or (), old.get(member) or ()
        if len(containers) != len(before):
            yield forbidden(f"spec.{member}", f"{member} may not be added or removed on resize")
            continue
        for index, (one, other) in enumerate(zip(containers, before, strict=True)):
            if one.get("name") != other.get("name"):
                yield forbidden(f"spec.{member}[{index}].name", f"{member} may not be renamed or reordered on resize")


def _removed(new: Object, old: Object, path: str, noun: str) -> Problems:
    for kind in _KINDS:
        if not (old.get(kind) or {}).keys() <= (new.get(kind) or {}).keys():
            yield forbidden(f"{path}.{kind}", f"{noun} {kind} cannot be removed")


def _other_changes(new: Object, old: Object, member: str, index: int) -> Problems:
    if _without_mutable(new) != _without_mutable(old):
        if member == "containers":
            yield forbidden("spec", "only cpu and memory resources are mutable")
        else:
            yield forbidden(f"spec.{member}[{index}]", "only cpu and memory resources for init or sidecar containers are mutable")
    if member == "initContainers" and new != old and new.get("restartPolicy") != "Always":
        for policy in new.get("resizePolicy") or ():
            if policy.get("restartPolicy") == "RestartContainer":
                detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                yield forbidden(f"spec.{member}[{index}]", detail)


def _without_mutable(container: Object) -> dict[str, Any]:
    return {**container, "resources": _fixed(container.get("resources") or {})}


def _fixed(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Resources without those that can be changed; kinds of which nothing is left are missing."""
    found = {key: value for key, value in resources.items() if key not in _KINDS and value}
    for kind in _KINDS:
        if amounts := {name: amount for name, amount in (resources.get(kind) or {}).items() if name not in _MUTABLE}:
            found[kind] = amounts
    return found
