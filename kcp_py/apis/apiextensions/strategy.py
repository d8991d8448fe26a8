"""CustomResourceDefinitions: their life in the registry.

Source: k8s.io/apiextensions-apiserver `pkg/registry/customresourcedefinition` (strategy and storage). What a definition must look like is
the schema package's question; whether its names are free and when its objects are gone are its controller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, not_supported
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.bootstrap.installed import deletion_refusal
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.crd.names import names_errors
from kcp_py.schema.crd.names_conditions import set_condition
from kcp_py.schema.crd.patterns import node_microseconds
from kcp_py.schema.crd.validation import default_crd, stored_version_errors, validate_crd, warnings_for_crd
from kcp_py.schema.rules.tree import is_compiler_imported

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""On a CRD from its deletion on, until the last of its objects is gone."""


_HEAVY: Final = 1000
_RULE: Final = 100


class CRDStrategy(Strategy):
    """A CRD keeps a list of the versions that objects may be stored in, and waits for its objects when it is deleted."""

    allow_unconditional_update = False
    precondition_failed = "precondition failed"
    is_marked_first = True
    propagates_first = False

    def __init__(
        self, *, builtin: Collection[tuple[str, str]] = (), namespaces: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        """Make the strategy.

        Args:
            builtin: (group, plural) of the resources that are served without a CRD, and that none may define again.
            namespaces: whether clusters have namespaces, without which a definition cannot be namespaced.
            clock: for the times of conditions, in Unix seconds.
        """
        self._builtin = frozenset(builtin)
        self._namespaces = namespaces
        self._clock = clock

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        default_crd(obj)
        storage = _storage_version(obj)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None if storage is None else [storage],
        }

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        default_crd(obj)
        _add_stored_version(obj)
        _keep_cleanup(obj, old)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        return validate_crd(obj) + self._builtin_errors(obj) + self._scope_errors(obj)

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        if obj.get("spec") is old.get("spec"):
            # Through /status: the specification is the stored one itself.
            status = obj.get("status") or {}
            errors = names_errors(status.get("acceptedNames") or {}, "status.acceptedNames")
            return errors + stored_version_errors(status.get("storedVersions"), (obj.get("spec") or {}).get("versions") or [])
        return validate_crd(obj, old)

    def is_heavy(self, obj: dict[str, Any]) -> bool:
        # The weights are measured: a schema node takes some microseconds, a rule half a millisecond.
        weight = 0
        rule = _RULE if is_compiler_imported() else _HEAVY
        pending: list[Any] = [obj.get("spec")]
        while pending and weight < _HEAVY:
            value = pending.pop()
            weight += 1
            if type(value) is dict:
                weight += rule * len(value.get("x-kubernetes-validations") or ())
                if (microseconds := node_microseconds(value)) > _HEAVY:
                    weight += microseconds
                pending.extend(value.values())
            elif type(value) is list:
                pending.extend(value)
        return weight >= _HEAVY

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        if old is not None and obj.get("spec") is old.get("spec"):
            return []
        return warnings_for_crd(obj, old)

    def check_delete(self, obj: dict[str, Any]) -> str:
        return deletion_refusal(obj)

    def prepare_for_delete(self, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
        status = obj["status"] = dict(obj.get("status") or {})
        conditions = status["conditions"] = list(status.get("conditions") or [])
        condition = {
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        set_condition(conditions, condition, now=format_time(self._clock()), generation=metadata.get("generation"))
        return True

    def _builtin_errors(self, obj: dict[str, Any]) -> list[FieldError]:
        spec = obj.get("spec") or {}
        defined = GroupResource(spec.get("group", ""), (spec.get("names") or {}).get("plural", ""))
        return [forbidden("spec.names.plural", f"{defined} is a built-in resource")] if defined in self._builtin else []

    def _scope_errors(self, obj: dict[str, Any]) -> list[FieldError]:
        if self._namespaces or (obj.get("spec") or {}).get("scope") != "Namespaced":
            return []
        return [not_supported("spec.scope", "Namespaced", ("Cluster",))]


def _add_stored_version(obj: dict[str, Any]) -> None:
    """A version that becomes the storage version may hold objects from this update on."""
    status = obj.get("status")
    if status is None:
        return
    stored = status.get("storedVersions") or []
    storage = _storage_version(obj)
    if storage is not None and storage not in stored:
        obj["status"] = {**status, "storedVersions": [*stored, storage]}


def _storage_version(obj: dict[str, Any]) -> str | None:
    versions = (obj.get("spec") or {}).get("versions") or ()
    return next((version.get("name") for version in versions if version.get("storage")), None)


def _keep_cleanup(obj: dict[str, Any], old: dict[str, Any]) -> None:
    """Objects whose CRD is gone could never be deleted again: only the CRDs' controller says when the last one is.

    Upstream lets every client that may update a CRD remove the finalizer.
    """
    if CLEANUP_FINALIZER not in (old["metadata"].get("finalizers") or ()):
        return
    finalizers = obj["metadata"].get("finalizers") or []
    if CLEANUP_FINALIZER not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
