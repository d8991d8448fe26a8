"""The problems of rules, which select requests by operation and resource (kubernetes `pkg/apis/admissionregistration/validation`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid, not_supported, required

OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES: Final = ("*", "Cluster", "Namespaced")


def operation_problems(operations: Sequence[str], path: str, supported: Sequence[str] = OPERATIONS) -> list[FieldError]:
    """The problems of the operations of a rule. `supported`: sorted."""
    problems = [] if operations else [required(path)]
    if len(operations) > 1 and "*" in operations:
        problems.append(invalid(path, operations, "if '*' is present, must not specify other operations"))
    return problems + [
        not_supported(f"{path}[{index}]", operation, supported) for index, operation in enumerate(operations) if operation not in supported
    ]


def rule_problems(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    """The problems of a rule without its operations. Resources may have subresources."""
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    problems = [] if groups else [required(f"{path}.apiGroups")]
    if len(groups) > 1 and "*" in groups:
        problems.append(invalid(f"{path}.apiGroups", groups, "if '*' is present, must not specify other API groups"))
    if not versions:
        problems.append(required(f"{path}.apiVersions"))
    if len(versions) > 1 and "*" in versions:
        problems.append(invalid(f"{path}.apiVersions", versions, "if '*' is present, must not specify other API versions"))
    problems += [required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version]
    problems += _resource_problems(rule.get("resources") or (), f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in SCOPES:
        problems.append(not_supported(f"{path}.scope", scope, SCOPES))
    return problems


def _resource_problems(resources: Sequence[str], path: str) -> list[FieldError]:
    problems = [] if resources else [required(path)]
    with_all_subresources: set[str] = set()
    of_all_resources: set[str] = set()
    is_plain = False
    for index, resource in enumerate(resources):
        here = f"{path}[{index}]"
        if not resource:
            problems.append(required(here))
            continue
        name, slash, subresource = resource.partition("/")
        if not slash:
            # As upstream: the last resource without a subresource decides.
            is_plain = resource != "*"
            continue
        if name in with_all_subresources:
            problems.append(invalid(here, resource, f"if '{name}/*' is present, must not specify {resource}"))
        if subresource in of_all_resources:
            problems.append(invalid(here, resource, f"if '*/{subresource}' is present, must not specify {resource}"))
        if subresource == "*":
            with_all_subresources.add(name)
        if name == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        problems.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and is_plain:
        problems.append(invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
    return problems
