"""What the conditions of a CRD say besides its names: whether its group may be used, and whether its schemas can be.

Source: k8s.io/apiextensions-apiserver `pkg/controller/apiapproval` and `pkg/controller/nonstructuralschema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import aggregate, invalid
from kcp_py.schema.crd.names import approval, is_protected_group
from kcp_py.schema.crd.names_conditions import set_condition
from kcp_py.schema.crd.structure import structural_errors
from kcp_py.schema.documents import child_schema

NON_STRUCTURAL: Final = "NonStructuralSchema"

_APPROVAL: Final = {
    "approved": ("True", "ApprovedAnnotation"),
    "bypassed": ("False", "UnapprovedAnnotation"),
    "missing": ("False", "MissingAnnotation"),
    "invalid": ("False", "InvalidAnnotation"),
}


def set_approval(crd: Mapping[str, Any], conditions: list[dict[str, Any]], *, now: str) -> None:
    """Put `KubernetesAPIApprovalPolicyConformant` into a list of conditions, in place; CRDs outside of Kubernetes' own groups have none."""
    if not is_protected_group((crd.get("spec") or {}).get("group") or ""):
        return
    state, message = approval(crd)
    status, reason = _APPROVAL[state]
    condition = {"type": "KubernetesAPIApprovalPolicyConformant", "status": status, "reason": reason, "message": message}
    set_condition(conditions, condition, now=now, generation=crd["metadata"].get("generation"))


def set_structure(crd: Mapping[str, Any], conditions: list[dict[str, Any]], *, now: str) -> None:
    """Put `NonStructuralSchema` into a list of conditions, in place, or take it out. Takes long for large schemas."""
    spec = crd.get("spec") or {}
    errors = []
    if spec.get("preserveUnknownFields"):
        errors.append(invalid("spec.preserveUnknownFields", value=True, detail="must be false"))
    for index, version in enumerate(spec.get("versions") or ()):
        if (schema := child_schema(version.get("schema") or {}, "openAPIV3Schema")) is not None:
            errors.extend(structural_errors(schema, f"spec.versions[{index}].schema.openAPIV3Schema"))
    if errors:
        condition = {"type": NON_STRUCTURAL, "status": "True", "reason": "Violations", "message": aggregate(errors)}
        set_condition(conditions, condition, now=now, generation=crd["metadata"].get("generation"))
    else:
        conditions[:] = [condition for condition in conditions if condition.get("type") != NON_STRUCTURAL]


def may_lack_structure(crd: Mapping[str, Any]) -> bool:
    """Whether `set_structure` could find something.

    CRDs that this server has created are structural and stay so, because they were validated. Others come from stores that older
    servers have written: no controller of this server has reported on their generation.
    """
    status = crd.get("status") or {}
    conditions = status.get("conditions") or ()
    if (crd.get("spec") or {}).get("preserveUnknownFields") or any(one.get("type") == NON_STRUCTURAL for one in conditions):
        return True
    return bool(conditions) and "observedGeneration" not in status
