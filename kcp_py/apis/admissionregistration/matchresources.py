"""The problems of what policies and bindings have in common: `matchConstraints`, `matchResources` and `paramRef`.

Source: kubernetes `pkg/apis/admissionregistration/validation` (`validateMatchResources`, `validateNamedRuleWithOperations`,
`validateParamRef`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta.names import path_segment_problems
from kcp_py.apimachinery.meta.selectorvalidation import selector_problems
from kcp_py.apis.admissionregistration.rules import operation_problems, rule_problems

Object = Mapping[str, Any]

_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"


def match_problems(matching: Object, path: str) -> list[FieldError]:
    """The problems of the requests that a policy or a binding selects."""
    problems: list[FieldError] = []
    policy = matching.get("matchPolicy")
    if policy is None:
        problems.append(required(f"{path}.matchPolicy"))
    elif policy not in _MATCH_POLICIES:
        problems.append(not_supported(f"{path}.matchPolicy", policy, _MATCH_POLICIES))
    for field in ("namespaceSelector", "objectSelector"):
        selector = matching.get(field)
        problems += [required(f"{path}.{field}")] if selector is None else selector_problems(selector, f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(matching.get(field) or ()):
            problems += _rule_problems(rule, f"{path}.{field}[{index}]")
    return problems


def _rule_problems(rule: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        here = f"{path}.resourceNames[{index}]"
        problems += [invalid(here, name, text) for text in path_segment_problems(name)]
        if name in seen:
            problems.append(duplicate(here, name))
        seen.add(name)
    return problems + operation_problems(rule.get("operations") or (), f"{path}.operations") + rule_problems(rule, path)


def mutating_operation_problems(matching: Object, path: str) -> list[FieldError]:
    """The operations of rules that no mutation can be for. As upstream, the path does not tell the rule."""
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)
        for rule in matching.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _MUTATING_OPERATIONS
    ]


def parameter_problems(reference: Object, path: str) -> list[FieldError]:
    """The problems of the parameters of a binding."""
    problems: list[FieldError] = []
    name, selector, action = reference.get("name") or "", reference.get("selector"), reference.get("parameterNotFoundAction")
    if name:
        problems += [invalid(f"{path}.name", name, text) for text in path_segment_problems(name)]
        if selector is not None:
            problems.append(forbidden(f"{path}.name", _EXCLUSIVE))
    if selector is not None:
        problems += selector_problems(selector, f"{path}.selector")
        if name:
            problems.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        problems.append(required(path, "one of name or selector must be specified"))
    if not action:
        problems.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in _NOT_FOUND_ACTIONS:
        problems.append(not_supported(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS))
    return problems
