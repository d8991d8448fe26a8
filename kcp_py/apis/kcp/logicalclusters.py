"""LogicalClusters (core.kcp.io): the object named `cluster` in every logical cluster.

Source: kcp `pkg/apis/core/v1alpha1/logicalcluster_types.go` and the admission plugin `core.kcp.io/LogicalCluster`. Who may create or
delete one is admission's question; when a cluster is empty, its controller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, not_supported
from kcp_py.apimachinery.meta.timestamps import format_time, parse_time
from kcp_py.registry.clusterlimits import LIMIT_ANNOTATIONS, parse_limit
from kcp_py.registry.clusterstate import CLUSTER_OBJECT
from kcp_py.registry.strategy import Strategy

NAME: Final = CLUSTER_OBJECT
DELETION_FINALIZER: Final = "core.kcp.io/logicalcluster-deletion"
PHASE_LABEL: Final = "tenancy.kcp.io/phase"
INACTIVE_ANNOTATION: Final = "core.kcp.io/inactive"
LEGACY_INACTIVE_ANNOTATION: Final = "internal.kcp.io/inactive"
PROTECTION_ANNOTATION: Final = "kcp-py.io/deletion-protection"
"""With any value but `false`: deletions of the cluster are refused."""
DELETE_AFTER_ANNOTATION: Final = "kcp-py.io/delete-after"
"""When the content of a deleted cluster is deleted (RFC 3339).

A deletion with a grace period sets it; removing it undeletes the cluster.
"""
LONGEST_GRACE_SECONDS: Final = 10 * 365 * 24 * 3600
PHASES: Final = ("Scheduling", "Initializing", "Ready", "Unavailable", "Inactive", "Terminating", "Deleting")


class LogicalClusterStrategy(Strategy):
    """One object per cluster; its phase only goes forward and is repeated in a label."""

    allow_unconditional_update = False
    checks_malformed = True

    def __init__(self, *, deletion_grace: float = 0.0, clock: Callable[[], float] = time.time) -> None:
        """Make the strategy.

        Args:
            deletion_grace: seconds between a deletion that does not say so itself and the deletion of the content.
            clock: Unix seconds.
        """
        self._deletion_grace = deletion_grace
        self._clock = clock

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        spec = _map(obj, "spec")
        if spec or not obj.get("spec"):
            obj["spec"] = {"directlyDeletable": False, **spec}
        initializers = spec.get("initializers") or []
        status: dict[str, Any] = {"phase": "Initializing" if initializers else "Ready"}
        if initializers:
            status["initializers"] = initializers
        if terminators := spec.get("terminators"):
            status["terminators"] = terminators
        obj["status"] = status
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if DELETION_FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, DELETION_FINALIZER]
        _label(obj)

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        _keep_deletion_finalizer(obj["metadata"], old["metadata"])
        before, after = ("Ready", "Inactive") if _is_switched_off(obj) else ("Inactive", "Ready")
        if _phase(obj) == before:
            obj["status"] = {**obj["status"], "phase": after}
        _label(obj)

    def prepare_for_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        _label(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        nothing: dict[str, Any] = {"metadata": {}}
        return _name_problems(obj) + _annotation_problems(obj, nothing) + _limit_problems(obj, nothing)

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        problems = _name_problems(obj) + _annotation_problems(obj, old) + _limit_problems(obj, old)
        spec, before = _map(obj, "spec"), _map(old, "spec")
        if (spec.get("initializers") or []) != (before.get("initializers") or []):
            problems.append(invalid("spec.initializers", spec.get("initializers") or [], "field is immutable"))
        phase, was = _phase(obj), _phase(old)
        if phase in PHASES and was in PHASES and PHASES.index(phase) < PHASES.index(was) and not _may_return(was, phase):
            problems.append(invalid("status.phase", phase, f'cannot transition from "{was}" to "{phase}"'))
        return problems

    def check_delete(self, obj: dict[str, Any]) -> str:
        if obj["metadata"].get("deletionTimestamp") or not is_protected(obj):
            return ""
        return f"the logical cluster is protected from deletion by its annotation {PROTECTION_ANNOTATION}; remove the annotation first"

    def postpone_delete(self, obj: dict[str, Any], grace: int | None) -> dict[str, Any] | None:
        metadata = obj["metadata"]
        seconds = self._deletion_grace if grace is None else min(grace, LONGEST_GRACE_SECONDS)
        after = delete_after(obj)
        if metadata.get("deletionTimestamp") or (grace is not None and seconds <= 0) or (after is None and seconds <= 0):
            return None
        until = format_time(self._clock() + seconds)
        if after is not None and (grace is None or parse_time(until) >= parse_time(after)):
            return obj  # a second deletion can only bring the end nearer
        annotations = {**(metadata.get("annotations") or {}), DELETE_AFTER_ANNOTATION: until}
        kept = {**obj, "metadata": {**metadata, "annotations": annotations}}
        if _phase(kept) == "Ready":
            kept["status"] = {**kept["status"], "phase": "Inactive"}
        _label(kept)
        return kept

    def prepare_for_delete(self, obj: dict[str, Any]) -> bool:
        spec = _map(obj, "spec")
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating" if spec.get("terminators") else "Deleting"}
        _label(obj)
        return True


def is_inactive(obj: Mapping[str, Any]) -> bool:
    """Whether the cluster was switched off by annotation."""
    annotations = obj["metadata"].get("annotations") or {}
    return "true" in {annotations.get(INACTIVE_ANNOTATION), annotations.get(LEGACY_INACTIVE_ANNOTATION)}


def is_protected(obj: Mapping[str, Any]) -> bool:
    """Whether deletions of the cluster are refused."""
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return annotations.get(PROTECTION_ANNOTATION, "false") != "false"


def delete_after(obj: Mapping[str, Any]) -> str | None:
    """When the content of a deleted cluster will be deleted (RFC 3339): until then the cluster can be undeleted.

    None for a cluster that is not deleted, and for one whose content is being deleted already.
    """
    metadata = obj["metadata"]
    after: str | None = (metadata.get("annotations") or {}).get(DELETE_AFTER_ANNOTATION)
    return None if metadata.get("deletionTimestamp") else after


def _is_switched_off(obj: Mapping[str, Any]) -> bool:
    return is_inactive(obj) or delete_after(obj) is not None


def _name_problems(obj: dict[str, Any]) -> list[FieldError]:
    name = obj["metadata"].get("name", "")
    return [] if name == NAME else [not_supported("metadata.name", name, (NAME,))]


def _annotation_problems(obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Only deletions set the end of a cluster. A deleted cluster cannot be protected from deletion, and can be undeleted until its end."""
    annotations, before = (each["metadata"].get("annotations") or {} for each in (obj, old))
    after = annotations.get(DELETE_AFTER_ANNOTATION)
    path = f"metadata.annotations[{DELETE_AFTER_ANNOTATION}]"
    if after is None:
        if DELETE_AFTER_ANNOTATION in before and old["metadata"].get("deletionTimestamp"):
            return [forbidden(path, "the content of the logical cluster is being deleted already: it cannot be undeleted")]
        return []
    if after != before.get(DELETE_AFTER_ANNOTATION):
        return [forbidden(path, "only a deletion sets this annotation; removing it undeletes the logical cluster")]
    if is_protected(obj) and not is_protected(old) and not obj["metadata"].get("deletionTimestamp"):
        path = f"metadata.annotations[{PROTECTION_ANNOTATION}]"
        return [forbidden(path, f"the logical cluster is deleted; remove the annotation {DELETE_AFTER_ANNOTATION} to undelete it")]
    return []


def _limit_problems(obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """The errors of new limits. Those that were stored before they were checked may stay."""
    annotations, before = (each["metadata"].get("annotations") or {} for each in (obj, old))
    problems = []
    for annotation in LIMIT_ANNOTATIONS:
        text = annotations.get(annotation)
        if text is not None and text != before.get(annotation):
            try:
                parse_limit(annotation, text)
            except ValueError as error:
                problems.append(invalid(f"metadata.annotations[{annotation}]", text, str(error)))
    return problems


def _keep_deletion_finalizer(metadata: dict[str, Any], old: dict[str, Any]) -> None:
    """Only the controller of clusters removes it: the content of a cluster without an object could never be found again.

    Source: kcp's admission plugin
    `tenancy.kcp.io/LogicalClusterDeletionFinalizer`.
    """
    finalizers = metadata.get("finalizers") or []
    if DELETION_FINALIZER in (old.get("finalizers") or ()) and DELETION_FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, DELETION_FINALIZER]


def _map(obj: dict[str, Any], member: str) -> dict[str, Any]:
    """A member that should be an object. What it is instead, the schema reports."""
    value = obj.get(member)
    return value if isinstance(value, dict) else {}


def _phase(obj: dict[str, Any]) -> str:
    phase = _map(obj, "status").get("phase")
    return phase if isinstance(phase, str) and phase else "Scheduling"


def _may_return(was: str, phase: str) -> bool:
    """A cluster that was unavailable or switched off can be ready again."""
    return was in {"Unavailable", "Inactive"} and phase in {"Ready", "Unavailable"}


def _label(obj: dict[str, Any]) -> None:
    metadata, phase = obj["metadata"], _phase(obj)
    labels = metadata.get("labels") or {}
    if phase in PHASES and labels.get(PHASE_LABEL) != phase:
        metadata["labels"] = {**labels, PHASE_LABEL: phase}
