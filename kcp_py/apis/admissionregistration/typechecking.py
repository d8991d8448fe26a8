"""Type checks of ValidatingAdmissionPolicies against the schemas of the kinds that they are about: the warnings in their status. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/validating/typechecking.go` and apimachinery `pkg/api/meta/restmapper.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from kcp_py.apis.admissionregistration.environment import Declared, environment_of, with_composed
from kcp_py.apis.admissionregistration.expressions import named
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError
from kcp_py.cel.program import check_expression
from kcp_py.cel.types import DYN, Type

_MOST_KINDS: Final = 10
"""Of one rule of a policy; the rules behind it are not looked at."""
LONGEST_WARNINGS: Final = 256 * 1024
"""Characters of all warnings of a policy. Further ones are left out: upstream fails to store a status that is too large."""


class ServedKind(NamedTuple):
    """A resource that a cluster serves, in one version."""

    resource: GroupVersionResource
    singular: str
    kind: str


class CheckedKind(NamedTuple):
    """A kind with the type of its objects."""

    kind: GroupVersionKind
    type: Type


def checked_kinds(spec: Mapping[str, Any], served: Iterable[ServedKind]) -> Sequence[GroupVersionKind]:
    """The kinds that the expressions of a policy are checked against, sorted. Rules with wildcards add none.

    A rule of the core group finds its resources in all groups, because an empty group stands for any group where upstream looks them up.
    """
    by_name: dict[str, list[tuple[GroupVersionResource, str]]] = {}
    for one in served:
        for name in {one.resource.resource, one.singular}:
            by_name.setdefault(name, []).append((one.resource, one.kind))
    found: set[GroupVersionKind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = _without_wildcards(rule.get("apiGroups")), _without_wildcards(rule.get("apiVersions"))
        resources = sorted(name for name in rule.get("resources") or () if "*" not in name and "/" not in name)
        count = 0
        for group in groups:
            for version in versions:
                for name in resources:
                    for resource, kind in by_name.get(name.lower(), ()):
                        if resource.version != version or (group and resource.group != group):
                            continue
                        found.add(GroupVersionKind(resource.group, version, kind))
                        count += 1
                        if count == _MOST_KINDS:
                            return sorted(found)
    return sorted(found)


def _without_wildcards(names: Sequence[str] | None) -> Sequence[str]:
    return () if not names or any("*" in name for name in names) else sorted(names)


def type_problems(spec: Mapping[str, Any], kind: CheckedKind, params: Type | None) -> dict[str, str]:
    """The problems of the validations of a policy and of their messages, for one kind: place -> text.

    Args:
        spec: of the policy.
        kind: against which they are checked; see `checked_kinds`.
        params: the type of the parameters; None where it is not known, or the policy has none.
    """
    environment = _environment(spec, kind.type, params)
    group, version, name = kind.kind
    problems: dict[str, str] = {}
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            if (text := validation.get(field)) and (error := _problem(text, environment)):
                problems[f"spec.validations[{index}].{field}"] = f"{group}/{version}, Kind={name}: {error}\n"
    return problems


def type_warnings(spec: Mapping[str, Any], problems: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The value of `status.typeChecking.expressionWarnings`.

    Args:
        spec: of the policy.
        problems: for each kind, see `type_problems`.
    """
    warnings: list[dict[str, str]] = []
    left = LONGEST_WARNINGS
    for index in range(len(spec.get("validations") or ())):
        for field in ("expression", "messageExpression"):
            place = f"spec.validations[{index}].{field}"
            if not (texts := [found[place] for found in problems if place in found]):
                continue
            warning = "\n".join(texts)
            left -= len(warning)
            if left < 0:
                return warnings
            warnings.append({"fieldRef": place, "warning": warning})
    return warnings


def _environment(spec: Mapping[str, Any], kind: Type, params: Type | None) -> Environment:
    """What the expressions of a policy may use for objects of one kind. A variable that fails is of any type to the others."""
    base = environment_of(Declared(params=spec.get("paramKind") is not None))
    variables = {**base.variables, "object": kind, "oldObject": kind}
    # Upstream does not declare it for type checks, so that its uses are warned about.
    del variables["authorizer.requestResource"]
    if params is not None:
        variables["params"] = params
    base = base.with_variables(variables)
    composed: dict[str, Type] = {}
    environment = with_composed(base, composed)
    for name, text in named(spec.get("variables") or ()):
        try:
            composed[name] = check_expression(text, environment)
        except CompileError:
            composed[name] = DYN
        environment = with_composed(base, composed)
    return environment


def _problem(text: str, environment: Environment) -> str:
    try:
        check_expression(text, environment)
    except CompileError as error:
        return str(error)
    return ""
