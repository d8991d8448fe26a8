"""The problems of bindings of admission policies, and of the status of policies.

Source: kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, invalid, not_supported, required
from kcp_py.apimachinery.meta.names import dns_subdomain_problems
from kcp_py.apis.admissionregistration.matchresources import match_problems, mutating_operation_problems, parameter_problems

_ACTIONS: Final = ("Audit", "Deny", "Warn")


def binding_problems(binding: Mapping[str, Any], *, mutating: bool) -> list[FieldError]:
    """The problems of a binding. `mutating`: whether it is a MutatingAdmissionPolicyBinding."""
    spec = binding.get("spec") or {}
    name = spec.get("policyName") or ""
    problems = [invalid("spec.policyName", name, text) for text in dns_subdomain_problems(name)] if name else [required("spec.policyName")]
    if (reference := spec.get("paramRef")) is not None:
        problems += parameter_problems(reference, "spec.paramRef")
    if (matching := spec.get("matchResources")) is not None:
        problems += match_problems(matching, "spec.matchResources")
        if mutating:
            problems += mutating_operation_problems(matching, "spec.matchResources")
    return problems if mutating else problems + _action_problems(spec.get("validationActions") or (), "spec.validationActions")


def _action_problems(actions: Sequence[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            problems.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            problems.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        text = "(repeating the same validation failure information in the API response and headers serves no purpose)"
        problems.append(invalid(path, actions, f"must not contain both Deny and Warn {text}"))
    if not actions:
        problems.append(required(path))
    return problems


def status_problems(status: Mapping[str, Any]) -> list[FieldError]:
    """The problems of the status of a ValidatingAdmissionPolicy: each warning has a text and a field."""
    problems: list[FieldError] = []
    for index, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{index}]"
        problems += [required(f"{path}.{field}") for field in ("warning", "fieldRef") if not (warning.get(field) or "").strip()]
    return problems
