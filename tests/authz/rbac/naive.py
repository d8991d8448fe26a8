"""An evaluator of roles and bindings that keeps nothing: each question goes through all objects, as kubernetes' own does.

Source: kubernetes `pkg/registry/rbac/validation/rule.go`, `pkg/apis/rbac/v1/evaluation_helpers.go` and
`plugin/pkg/auth/authorizer/rbac/rbac.go`. It shares no code with the index that it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo

Objects = Mapping[tuple[str, str], dict[str, Any]]
"""Namespace, empty for those of the cluster, and name -> object."""


class NaiveEvaluator:
    """Answers from the roles and bindings that are there at the time of a question."""

    def __init__(self, roles: Objects, bindings: Objects) -> None:
        self._roles = roles
        self._bindings = bindings

    def allowing(self, user: UserInfo, info: RequestInfo) -> set[str]:
        """Descriptions of all bindings that allow a request, each with its first subject that is the user."""
        return {
            describe(binding, subject)
            for binding, subject, rules in self._applying(user, info.namespace)
            if any(matches(rule, info) for rule in rules or ())
        }

    def rules_for(self, user: UserInfo, namespace: str) -> list[dict[str, Any]]:
        """The rules of all roles that are bound, each role once."""
        bound = [rules for _, _, rules in self._applying(user, namespace) if rules]
        return [rule for rules in {id(rules): rules for rules in bound}.values() for rule in rules]

    def missing_roles(self, user: UserInfo, namespace: str) -> set[str]:
        """Errors about roles that do not exist."""
        return {not_found(binding["roleRef"]) for binding, _, rules in self._applying(user, namespace) if rules is None}

    def _applying(self, user: UserInfo, namespace: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[Any] | None]]:
        for scope in ("", namespace) if namespace else ("",):
            for (place, _), binding in self._bindings.items():
                if place == scope:
                    for subject in binding.get("subjects") or ():
                        if is_subject(user, subject, scope):
                            yield binding, subject, self._rules(binding["roleRef"], scope)
                            break

    def _rules(self, reference: dict[str, Any], namespace: str) -> list[Any] | None:
        if reference["kind"] == "Role":
            role = self._roles.get((namespace, reference["name"])) if namespace else None
        elif reference["kind"] == "ClusterRole":
            role = self._roles.get(("", reference["name"]))
        else:
            role = None
        return None if role is None else role.get("rules") or []


def not_found(reference: dict[str, Any]) -> str:
    if reference["kind"] not in {"Role", "ClusterRole"}:
        return f'unsupported role reference kind: "{reference["kind"]}"'
    return f'{reference["kind"].lower()}.rbac.authorization.k8s.io "{reference["name"]}" not found'


def is_subject(user: UserInfo, subject: dict[str, Any], namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return bool(user.name == subject["name"])
        case "Group":
            return subject["name"] in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return bool(home) and user.name == f"system:serviceaccount:{home}:{subject['name']}"
    return False


def describe(binding: dict[str, Any], subject: dict[str, Any]) -> str:
    metadata, reference = binding["metadata"], binding["roleRef"]
    namespace = metadata.get("namespace", "")
    whom = f"{subject['name']}/{subject.get('namespace') or namespace}" if subject["kind"] == "ServiceAccount" else subject["name"]
    head = f'RoleBinding "{metadata["name"]}/{namespace}"' if namespace else f'ClusterRoleBinding "{metadata["name"]}"'
    return f'{head} of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} "{whom}"'


def matches(rule: dict[str, Any], info: RequestInfo) -> bool:
    verbs = rule.get("verbs") or []
    if not any(verb in {"*", info.verb} for verb in verbs):
        return False
    if not info.is_resource:
        return any(url_matches(url, info.path) for url in rule.get("nonResourceURLs") or [])
    names = rule.get("resourceNames") or []
    return (
        any(group in {"*", info.group} for group in rule.get("apiGroups") or [])
        and any(resource_matches(resource, info) for resource in rule.get("resources") or [])
        and (not names or info.name in names)
    )


def resource_matches(resource: str, info: RequestInfo) -> bool:
    if resource == "*":
        return True
    if not info.subresource:
        return resource == info.resource
    before, _, after = resource.partition("/")
    return resource == f"{info.resource}/{info.subresource}" or (before == "*" and after == info.subresource)


def url_matches(url: str, path: str) -> bool:
    return url in {"*", path} or (url.endswith("*") and path.startswith(url.rstrip("*")))
