"""New pods, and the fields of pods that updates may change.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePodCreate`, `ValidatePodUpdate`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, required
from kcp_py.apis.upstream.validation.containers import image_whitespace
from kcp_py.apis.upstream.validation.fields import MAX_INT32, Object, Problems, in_range, not_negative
from kcp_py.apis.upstream.validation.podspec import spec_problems
from kcp_py.apis.upstream.validation.scheduling import only_added_tolerations, only_removed_gates

_MUTABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_LISTS: Final = ("containers", "initContainers")
MIRROR: Final = "kubernetes.io/config.mirror"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_IS_COST: Final = re.compile("-?[1-9][0-9]*|0")


def pod_problems(pod: Object) -> Problems:
    """A new pod."""
    yield from common_problems(pod)
    spec = pod.get("spec") or {}
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def common_problems(pod: Object) -> Problems:
    """The rules of new and of changed pods."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    yield from _annotations(metadata.get("annotations") or {}, spec)
    yield from spec_problems(spec, "spec", pod=metadata.get("name", ""))
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    path = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                    yield forbidden(path, "must not be specified when serviceAccountName is not set")
    yield from not_negative(spec.get("terminationGracePeriodSeconds"), "spec.terminationGracePeriodSeconds")
    for member in _LISTS:
        for index, container in enumerate(spec.get(member) or ()):
            yield from image_whitespace(container, f"spec.{member}[{index}]")


def _annotations(annotations: Mapping[str, str], spec: Object) -> Problems:
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"metadata.annotations[{MIRROR}]", annotations[MIRROR], detail)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_IS_COST.fullmatch(cost) and -MAX_INT32 - 1 <= int(cost) <= MAX_INT32):
        yield invalid(f"metadata.annotations[{_DELETION_COST}]", cost, "must be a 32bit integer")


def changed_pod_problems(pod: Object, old: Object) -> Problems:
    """A pod that an update changes."""
    spec, before = pod.get("spec") or {}, old.get("spec") or {}
    if spec != before or pod["metadata"].get("annotations") != old["metadata"].get("annotations"):
        yield from common_problems(pod)
    yield from _mirror_changes(pod["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {})
    if spec == before:
        return
    for member in _LISTS:
        new, stored = spec.get(member) or (), before.get(member) or ()
        if len(new) != len(stored):
            yield forbidden(f"spec.{member}", "pod updates may not add or remove containers")
            return
        yield from _images(new, f"spec.{member}")
    deadline = list(_deadline(spec, before))
    yield from deadline
    if deadline and "activeDeadlineSeconds" in spec:
        return
    yield from only_added_tolerations(spec.get("tolerations") or (), before.get("tolerations") or (), "spec.tolerations")
    yield from only_removed_gates(spec.get("schedulingGates") or (), before.get("schedulingGates") or (), "spec.schedulingGates")
    yield from _other_changes(_without_mutable(spec, before), _without_mutable(before, before), before)


def _images(containers: Sequence[Object], path: str) -> Problems:
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield required(f"{path}[{index}].image")
        yield from image_whitespace(container, f"{path}[{index}]")


def _deadline(spec: Object, before: Object) -> Problems:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
        return
    yield from in_range(new, path, 0)
    if 0 <= new <= MAX_INT32 and old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _mirror_changes(annotations: Mapping[str, str], before: Mapping[str, str]) -> Problems:
    if annotations.get(MIRROR) != before.get(MIRROR):
        verb = "remove or update" if MIRROR in before else "add"
        yield forbidden(f"metadata.annotations[{MIRROR}]", f"may not {verb} mirror pod annotation")


def _without_mutable(spec: Object, before: Object) -> dict[str, Any]:
    """A specification without the fields that an update may change."""
    fixed = {key: value for key, value in spec.items() if key not in {"activeDeadlineSeconds", "schedulingGates", "tolerations"}}
    for member in _LISTS:
        if member in fixed:
            fixed[member] = [{key: value for key, value in container.items() if key != "image"} for container in fixed[member]]
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = grace
    return fixed


def _other_changes(new: dict[str, Any], old: dict[str, Any], before: Object) -> Problems:
    if before.get("schedulingGates"):
        yield from _node_selector_changes(new.pop("nodeSelector", None) or {}, old.pop("nodeSelector", None) or {})
    if new != old:
        changed = sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key))
        detail = f"pod updates may not change fields other than {_MUTABLE}\n" + "".join(f"  spec.{key}\n" for key in changed)
        yield FieldError(reason="FieldValueForbidden", field="spec", detail=detail)


def _node_selector_changes(new: Mapping[str, str], old: Mapping[str, str]) -> Problems:
    """A pod that is not scheduled yet can get further requirements."""
    if any(new.get(key) != value for key, value in old.items()):
        yield invalid("spec.nodeSelector", dict(new), "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
