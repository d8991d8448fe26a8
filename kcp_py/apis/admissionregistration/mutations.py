"""The problems of MutatingAdmissionPolicies (kubernetes `pkg/apis/admissionregistration/validation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid, not_supported, required
from kcp_py.apis.admissionregistration.environment import JSON_PATCH, OBJECT
from kcp_py.apis.admissionregistration.policies import PolicyCompiler, shared_problems
from kcp_py.cel.types import Type, list_of, object_of

Object = Mapping[str, Any]

_REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
RESULTS: Final[Mapping[str, tuple[Type, ...]]] = {
    "ApplyConfiguration": (object_of(OBJECT, {}),),
    "JSONPatch": (list_of(object_of(JSON_PATCH, {})),),
}
"""The type of the expression of a mutation by `patchType`."""
FIELDS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""The field that has the expression of a mutation, by `patchType`."""


def mutating_policy_problems(policy: Object, old: Object | None) -> list[FieldError]:
    """The problems of a MutatingAdmissionPolicy. `old`: the policy before an update, or None."""
    spec = policy.get("spec") or {}
    compiler = PolicyCompiler(params=spec.get("paramKind") is not None, composes=True)
    problems = shared_problems(spec, (old or {}).get("spec"), compiler, mutating=True)
    mutations = spec.get("mutations") or ()
    if not mutations:
        problems.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        problems += _mutation_problems(mutation, f"spec.mutations[{index}]", compiler)
    policy_name = spec.get("reinvocationPolicy") or ""
    if not policy_name:
        problems.append(required("spec.reinvocationPolicy"))
    elif policy_name not in _REINVOCATION_POLICIES:
        problems.append(not_supported("spec.reinvocationPolicy", policy_name, _REINVOCATION_POLICIES))
    return problems


def _mutation_problems(mutation: Object, path: str, compiler: PolicyCompiler) -> list[FieldError]:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in FIELDS:
        return [not_supported(f"{path}.patchType", kind, tuple(FIELDS))]
    field = FIELDS[kind]
    (other,) = FIELDS.keys() - {kind}
    problems: list[FieldError] = []
    if (patch := mutation.get(field)) is None:
        problems.append(required(f"{path}.{field}", f"must be specified when patchType is {kind}"))
    elif not (text := (patch.get("expression") or "").strip()):
        problems.append(required(f"{path}.{field}.expression"))
    else:
        declared = compiler.declared._replace(patch_types=True)
        problems += compiler.problems(text, f"{path}.{field}.expression", declared, results=RESULTS[kind])
    if mutation.get(FIELDS[other]) is not None:
        problems.append(invalid(f"{path}.{FIELDS[other]}", f"{{{FIELDS[other]}}}", f"must not be specified when patchType is {kind}"))
    return problems
