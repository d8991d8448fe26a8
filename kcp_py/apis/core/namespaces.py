"""Namespaces.

Source: kubernetes `pkg/registry/core/namespace`, `pkg/apis/core/validation` (`ValidateNamespace*`), `pkg/apis/core/v1/defaults.go`, and
the admission plugin NamespaceLifecycle for the namespaces that cannot be deleted.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apimachinery.meta import names
from kcp_py.registry.namespaces import IMMORTAL
from kcp_py.registry.strategy import Strategy
from kcp_py.request.user import UserInfo

FINALIZER: Final = "kubernetes"
"""In `spec.finalizers` while the namespace's content is not known to be gone."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """A namespace is deleted in two steps: it terminates, then its content and at last `spec.finalizers` go."""

    has_generation = False
    qualifies_finalizers = True
    return_deleted_object = True
    propagation_without_orphans = "Foreground"
    is_marked_first = True
    precondition_failed = "Precondition failed"
    validate_name = staticmethod(names.dns_label_problems)

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Active"}
        _label(obj)

    def fill_new(self, obj: dict[str, Any], user: UserInfo) -> None:
        del user
        spec = obj["spec"] = dict(obj.get("spec") or {})
        finalizers = list(spec.get("finalizers") or ())
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        spec["finalizers"] = finalizers

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        spec = obj["spec"] = dict(obj.get("spec") or {})
        _keep(spec, old.get("spec") or {}, "finalizers")
        _keep(obj, old, "status")
        _label(obj)

    def prepare_for_finalize(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        _keep(obj, old, "status")
        _label(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        _label(obj)  # a generated name is known only now
        # Upstream names the list here, and the element with `/finalize`.
        return _finalizers_problems(obj, "spec.finalizers")

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        del old
        phase = (obj.get("status") or {}).get("phase", "")
        if obj["metadata"].get("deletionTimestamp"):
            if phase != "Terminating":
                return [invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
        elif phase != "Active":
            return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        return _finalizers_problems(obj, "spec.finalizers[{}]")

    def check_delete(self, obj: dict[str, Any]) -> str:
        return "this namespace may not be deleted" if obj["metadata"]["name"] in IMMORTAL else ""

    def prepare_for_delete(self, obj: dict[str, Any]) -> bool:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return True

    def has_pending_finalizers(self, obj: dict[str, Any]) -> bool:
        return bool(obj["metadata"].get("finalizers") or (obj.get("spec") or {}).get("finalizers"))


def _label(obj: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    if name := metadata.get("name"):
        labels = metadata.get("labels") or {}
        if labels.get(NAME_LABEL) != name:
            metadata["labels"] = {**labels, NAME_LABEL: name}


def _keep(new: dict[str, Any], old: dict[str, Any], member: str) -> None:
    if member in old:
        new[member] = old[member]
    else:
        new.pop(member, None)


def _finalizers_problems(obj: dict[str, Any], path: str) -> list[FieldError]:
    """The problems of the finalizers of the specification. `{}` in the path stands for the position."""
    return [
        invalid(path.format(index), finalizer, problem)
        for index, finalizer in enumerate((obj.get("spec") or {}).get("finalizers") or ())
        for problem in _finalizer_problems(finalizer)
    ]


def _finalizer_problems(finalizer: str) -> list[str]:
    problems = names.qualified_name_problems(finalizer)
    if "/" not in finalizer and finalizer != FINALIZER:
        problems.append("name is neither a standard finalizer name nor is it fully qualified")
    return problems
