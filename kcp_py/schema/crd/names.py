"""The names that a CRD claims, and the approval that protected groups need.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`, `pkg/apihelpers/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from kcp_py.apimachinery.fielderrors import FieldError, invalid, required
from kcp_py.apimachinery.meta.names import dns_1035_label_problems
from kcp_py.golang.quoting import go_quote

APPROVED_ANNOTATION: Final = "api-approved.kubernetes.io"
_APPROVAL_FIELD: Final = f"metadata.annotations[{APPROVED_ANNOTATION}]"
_POLICY: Final = "https://github.com/kubernetes/enhancements/pull/1111"


def names_errors(names: Mapping[str, Any], path: str) -> list[FieldError]:
    """The form of `spec.names` or `status.acceptedNames`; empty names do not violate the form."""
    errors: list[FieldError] = []
    for field in ("plural", "singular"):
        value = names.get(field) or ""
        if value and (problems := dns_1035_label_problems(value)):
            errors.append(invalid(f"{path}.{field}", value, ",".join(problems)))
    kind, list_kind = names.get("kind") or "", names.get("listKind") or ""
    for field, value in (("kind", kind), ("listKind", list_kind)):
        if value and (problems := dns_1035_label_problems(value.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
            errors.append(invalid(f"{path}.{field}", value, detail))
    errors.extend(_label_errors(names.get("shortNames"), f"{path}.shortNames"))
    if kind and kind == list_kind:
        errors.append(invalid(f"{path}.listKind", list_kind, "kind and listKind may not be the same"))
    errors.extend(_label_errors(names.get("categories"), f"{path}.categories"))
    return errors


def missing_names(names: Mapping[str, Any], path: str) -> list[FieldError]:
    """The names that `spec.names` has to have."""
    return [required(f"{path}.{field}") for field in ("plural", "singular", "kind", "listKind") if not names.get(field)]


def _label_errors(labels: Any, path: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{index}]", label, ",".join(problems))
        for index, label in enumerate(labels or ())
        if (problems := dns_1035_label_problems(label))
    ]


def is_protected_group(group: str) -> bool:
    """Whether the group belongs to the Kubernetes community."""
    return group in {"k8s.io", "kubernetes.io"} or group.endswith((".k8s.io", ".kubernetes.io"))


def approval(crd: Mapping[str, Any]) -> tuple[str, str]:
    """The state of the approval annotation (`missing`, `bypassed`, `approved`, `invalid`) and its message."""
    annotations = (crd.get("metadata") or {}).get("annotations") or {}
    value = annotations.get(APPROVED_ANNOTATION) or ""
    if not value:
        return "missing", f'protected groups must have approval annotation "{APPROVED_ANNOTATION}", see {_POLICY}'
    if value.startswith("unapproved"):
        return "bypassed", f"not approved: {go_quote(value)}"
    try:
        url = urlsplit(value)
    except ValueError:
        url = urlsplit("")
    if url.netloc and url.scheme:
        return "approved", f"approved in {value}"
    detail = (
        f'protected groups must have approval annotation "{APPROVED_ANNOTATION}" with either a URL or a reason starting with "unapproved"'
    )
    return "invalid", f"{detail}, see {_POLICY}"


def approval_errors(crd: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[FieldError]:
    """Protected groups need the annotation; an unchanged state is never refused."""
    if not is_protected_group((crd.get("spec") or {}).get("group") or ""):
        return []
    state, detail = approval(crd)
    if old is not None and approval(old)[0] == state:
        return []
    if state == "missing":
        return [required(_APPROVAL_FIELD, detail)]
    if state == "invalid":
        return [invalid(_APPROVAL_FIELD, crd["metadata"]["annotations"][APPROVED_ANNOTATION], detail)]
    return []
