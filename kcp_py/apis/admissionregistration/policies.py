"""The problems of admission policies, whose expressions are compiled for that.

Source: kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, invalid, not_supported, required
from kcp_py.apimachinery.meta.names import dns_1035_label_problems, dns_subdomain_problems, qualified_name_problems
from kcp_py.apis.admissionregistration.conditions import condition_problems
from kcp_py.apis.admissionregistration.environment import Declared, environment_of
from kcp_py.apis.admissionregistration.expressions import ANNOTATION, CONDITION, MESSAGE, Composition, Expression, compile_in
from kcp_py.apis.admissionregistration.matchresources import match_problems, mutating_operation_problems
from kcp_py.cel.types import Type

Object = Mapping[str, Any]

_FAILURE_POLICIES: Final = ("Fail", "Ignore")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_KEYWORDS: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    }
)
_NOTHING_TO_DO: Final = "validations or auditAnnotations must contain at least one item"


class PolicyCompiler:
    """Compiles the expressions of one policy for their problems. Without variables, `variables` is not declared."""

    def __init__(self, *, params: bool, composes: bool) -> None:
        self.declared = Declared(params=params)
        self.composition = Composition() if composes else None

    def compile(self, text: str, declared: Declared, results: tuple[Type, ...]) -> Expression:
        """Compile an expression."""
        if self.composition is None:
            return compile_in(environment_of(declared), text, results)
        return self.composition.compile(text, declared, results)

    def problems(self, text: str, path: str, declared: Declared, *, results: tuple[Type, ...]) -> list[FieldError]:
        """The problems of an expression at a path."""
        expression = self.compile(text, declared, results)
        return [invalid(path, text, expression.error)] if expression.error else []


def validating_policy_problems(policy: Object, old: Object | None) -> list[FieldError]:
    """The problems of a ValidatingAdmissionPolicy. `old`: the policy before an update, or None."""
    spec = policy.get("spec") or {}
    compiler = PolicyCompiler(params=spec.get("paramKind") is not None, composes=bool(spec.get("variables")))
    problems = shared_problems(spec, (old or {}).get("spec"), compiler, mutating=False)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        return [*problems, required("spec.validations", _NOTHING_TO_DO), required("spec.auditAnnotations", _NOTHING_TO_DO)]
    for index, validation in enumerate(validations):
        problems += _validation_problems(validation, f"spec.validations[{index}]", compiler)
    if len(annotations) > _MOST_ANNOTATIONS:
        # Upstream's internal type has these names.
        shown = [{"Key": one.get("key") or "", "ValueExpression": one.get("valueExpression") or ""} for one in annotations]
        problems.append(invalid("spec.auditAnnotations", shown, f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"))
    keys: set[str] = set()
    name = policy["metadata"].get("name") or ""
    for index, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        problems += _annotation_problems(name, annotation, path, compiler)
        key = annotation.get("key") or ""
        if key in keys:
            problems.append(duplicate(f"{path}.key", key))
        keys.add(key)
    return problems


def shared_problems(spec: Object, old: Object | None, compiler: PolicyCompiler, *, mutating: bool) -> list[FieldError]:
    """The problems of the fields that both kinds of policies have. Match conditions that did not change are not compiled again."""
    problems: list[FieldError] = []
    failure_policy = spec.get("failurePolicy")
    if failure_policy is None:
        problems.append(required("spec.failurePolicy"))
    elif failure_policy not in _FAILURE_POLICIES:
        problems.append(not_supported("spec.failurePolicy", failure_policy, _FAILURE_POLICIES))
    if (kind := spec.get("paramKind")) is not None:
        problems += _parameter_kind_problems(kind, "spec.paramKind")
    if (matching := spec.get("matchConstraints")) is None:
        problems.append(required("spec.matchConstraints"))
    else:
        problems += match_problems(matching, "spec.matchConstraints")
        if not matching.get("resourceRules"):
            problems.append(required("spec.matchConstraints.resourceRules"))
        if mutating:
            problems += mutating_operation_problems(matching, "spec.matchConstraints")
    if old is None or any((spec.get(field) or None) != (old.get(field) or None) for field in ("paramKind", "matchConditions")):
        problems += _condition_problems(spec, compiler)
    for index, variable in enumerate(spec.get("variables") or ()):
        problems += _variable_problems(variable, f"spec.variables[{index}]", compiler)
    return problems


def _condition_problems(spec: Object, compiler: PolicyCompiler) -> list[FieldError]:
    """The problems of match conditions, which see no variables."""

    def compile_problems(text: str, path: str) -> list[FieldError]:
        error = compile_in(environment_of(compiler.declared), text, CONDITION).error
        return [invalid(path, text, error)] if error else []

    return condition_problems(spec.get("matchConditions") or (), "spec.matchConditions", compile_problems)


def _parameter_kind_problems(kind: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    here = f"{path}.apiVersion"
    group, slash, version = api_version.partition("/")
    if not slash:
        group, version = "", api_version
    if not api_version:
        problems.append(required(here))
    elif "/" in version:
        problems.append(invalid(here, api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        if group and (texts := dns_subdomain_problems(group)):
            problems.append(invalid(here, group, ",".join(texts)))
        if not version:
            problems.append(invalid(here, api_version, "version must be specified"))
        elif texts := dns_1035_label_problems(version):
            problems.append(invalid(here, version, ",".join(texts)))
    if not name:
        problems.append(required(f"{path}.kind"))
    elif texts := dns_1035_label_problems(name.lower()):
        problems.append(invalid(f"{path}.kind", name, "may have mixed case, but should otherwise match: " + ",".join(texts)))
    return problems


def _variable_problems(variable: Object, path: str, compiler: PolicyCompiler) -> list[FieldError]:
    problems: list[FieldError] = []
    name, text = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        problems.append(required(f"{path}.name", "name is not specified"))
    elif _IDENTIFIER.fullmatch(name) is None or name in _KEYWORDS:
        problems.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not text.strip():
        problems.append(required(f"{path}.expression", "expression is not specified"))
    else:
        assert compiler.composition is not None
        if error := compiler.composition.add(name, text, compiler.declared).error:
            problems.append(invalid(f"{path}.expression", text, error))
    return problems


def _validation_problems(validation: Object, path: str, compiler: PolicyCompiler) -> list[FieldError]:
    problems: list[FieldError] = []
    text, message, telling = (validation.get(field) or "" for field in ("expression", "message", "messageExpression"))
    if not text.strip():
        problems.append(required(f"{path}.expression", "expression is not specified"))
    else:
        problems += compiler.problems(text, f"{path}.expression", compiler.declared, results=CONDITION)
    if telling and not telling.strip():
        problems.append(invalid(f"{path}.messageExpression", telling, "must be non-empty if specified"))
    elif telling:
        declared = compiler.declared._replace(authorizer=False)
        problems += compiler.problems(telling, f"{path}.messageExpression", declared, results=MESSAGE)
    if message and not message.strip():
        problems.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        problems.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        problems.append(not_supported(f"{path}.reason", reason, _REASONS))
    return problems


def _annotation_problems(name: str, annotation: Object, path: str, compiler: PolicyCompiler) -> list[FieldError]:
    key, text = annotation.get("key") or "", annotation.get("valueExpression") or ""
    if name:
        whole = f"{name}/{key}"
        problems = [invalid(f"{path}.key", whole, problem) for problem in qualified_name_problems(whole)]
    else:
        problems = [invalid(f"{path}.key", key, "requires metadata.name be non-empty")]
    here, trimmed = f"{path}.valueExpression", text.strip()
    if not trimmed:
        problems.append(required(here, "valueExpression is not specified"))
    elif len(trimmed.encode()) > _LONGEST_ANNOTATION:
        problems.append(required(here, f"must not exceed {_LONGEST_ANNOTATION} bytes in length"))
    elif error := compiler.compile(trimmed, compiler.declared, ANNOTATION).error:
        problems.append(invalid(here, text, error))
    return problems
