"""LogicalClusters (core.kcp.io): the object named `cluster` in every logical cluster.

Source: kcp `pkg/apis/core/v1alpha1/logicalcluster_types.go` and the admission plugin `core.kcp.io/LogicalCluster`. Who may create or
delete one is admission's question; when a cluster is empty, its controller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid, not_supported
from kcp_py.registry.strategy import Strategy

NAME: Final = "cluster"
DELETION_FINALIZER: Final = "core.kcp.io/logicalcluster-deletion"
PHASE_LABEL: Final = "tenancy.kcp.io/phase"
INACTIVE_ANNOTATION: Final = "core.kcp.io/inactive"
LEGACY_INACTIVE_ANNOTATION: Final = "internal.kcp.io/inactive"
PHASES: Final = ("Scheduling", "Initializing", "Ready", "Unavailable", "Inactive", "Terminating", "Deleting")


class LogicalClusterStrategy(Strategy):
    """One object per cluster; its phase only goes forward and is repeated in a label."""

    allow_unconditional_update = False

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
        before, after = ("Ready", "Inactive") if is_inactive(obj) else ("Inactive", "Ready")
        if _phase(obj) == before:
            obj["status"] = {**obj["status"], "phase": after}
        _label(obj)

    def prepare_for_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        _label(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        name = obj["metadata"].get("name", "")
        return [] if name == NAME else [not_supported("metadata.name", name, (NAME,))]

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        problems = self.validate(obj)
        spec, before = _map(obj, "spec"), _map(old, "spec")
        if (spec.get("initializers") or []) != (before.get("initializers") or []):
            problems.append(invalid("spec.initializers", spec.get("initializers") or [], "field is immutable"))
        phase, was = _phase(obj), _phase(old)
        if phase in PHASES and was in PHASES and PHASES.index(phase) < PHASES.index(was) and not _may_return(was, phase):
            problems.append(invalid("status.phase", phase, f'cannot transition from "{was}" to "{phase}"'))
        return problems

    def prepare_for_delete(self, obj: dict[str, Any]) -> bool:
        spec = _map(obj, "spec")
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating" if spec.get("terminators") else "Deleting"}
        _label(obj)
        return True


def is_inactive(obj: Mapping[str, Any]) -> bool:
    """Whether the cluster was switched off by annotation."""
    annotations = obj["metadata"].get("annotations") or {}
    return "true" in {annotations.get(INACTIVE_ANNOTATION), annotations.get(LEGACY_INACTIVE_ANNOTATION)}


def _keep_deletion_finalizer(metadata: dict[str, Any], old: dict[str, Any]) -> None:
    """Only the controller of clusters takes it away: what is in a cluster without an object could never be found again.

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
