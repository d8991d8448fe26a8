"""Roles and bindings.

Source: kubernetes `pkg/apis/rbac/validation`, `pkg/apis/rbac/v1/defaults.go`, `pkg/registry/rbac/*`. Whether the author may grant these
permissions is a question of authorization and not checked in this module.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, go_struct, invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.selectorvalidation import selector_problems
from kcp_py.apis.rbac.policy import GROUP
from kcp_py.registry.strategy import Strategy

_ROLE_REFERENCE: Final = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}


class _Rbac(Strategy):
    has_generation = False
    qualifies_finalizers = True
    allow_create_on_update = True
    validate_name = staticmethod(names.path_segment_problems)


class RoleStrategy(_Rbac):
    """Roles hold rules for resources of their namespace."""

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        rules = obj.get("rules") or ()
        return rule_problems(rules, "rules", namespaced=True) + missing_verb_problems(rules, "rules")


class ClusterRoleStrategy(_Rbac):
    """Cluster roles may also hold rules for URLs, and may be composed of others."""

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        rules = obj.get("rules") or ()
        problems = rule_problems(rules, "rules", namespaced=False)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            selectors = aggregation.get("clusterRoleSelectors") or ()
            path = "aggregationRule.clusterRoleSelectors"
            if not selectors:
                problems.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
            for index, selector in enumerate(selectors):
                here = f"{path}[{index}]"
                if faults := selector_problems(selector, here):
                    problems += [*faults, invalid(here, None, "invalid label selector.")]
        return problems + missing_verb_problems(rules, "rules")


class RoleBindingStrategy(_Rbac):
    """Bindings of one namespace, to a role of it or to a cluster role."""

    def __init__(self, *, namespaced: bool = True) -> None:
        self._namespaced = namespaced
        self._role_kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        reference = obj.get("roleRef")
        if not isinstance(reference, dict):
            reference = obj["roleRef"] = {}
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
                subject["apiGroup"] = GROUP

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        self.prepare_for_create(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        return self._given_problems(obj) + _missing_name_problems(obj)

    def _given_problems(self, obj: dict[str, Any]) -> list[FieldError]:
        reference = obj["roleRef"]
        problems = []
        if reference.get("apiGroup") != GROUP:
            problems.append(not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,)))
        if reference.get("kind") not in self._role_kinds:
            problems.append(not_supported("roleRef.kind", reference.get("kind", ""), self._role_kinds))
        if reference.get("name"):
            problems += [invalid("roleRef.name", reference["name"], text) for text in names.path_segment_problems(reference["name"])]
        for index, subject in enumerate(obj.get("subjects") or ()):
            problems += self._subject_problems(subject, f"subjects[{index}]")
        return problems

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        problems = self.validate(obj)
        if obj.get("roleRef") != old.get("roleRef"):
            problems.append(invalid("roleRef", go_struct(obj["roleRef"], _ROLE_REFERENCE), "field is immutable"))
        return problems

    def _subject_problems(self, subject: dict[str, Any], path: str) -> list[FieldError]:
        name, group, kind = subject.get("name", ""), subject.get("apiGroup", ""), subject.get("kind", "")
        problems: list[FieldError] = []
        match kind:
            case "ServiceAccount":
                if name:
                    problems += [invalid(f"{path}.name", name, text) for text in names.dns_subdomain_problems(name)]
                if group:
                    problems.append(not_supported(f"{path}.apiGroup", group, ("",)))
                if not self._namespaced and not subject.get("namespace"):
                    problems.append(required(f"{path}.namespace"))
            case "User" | "Group":
                if group != GROUP:
                    problems.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
            case _:
                problems.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
        return problems


def _missing_name_problems(binding: dict[str, Any]) -> list[FieldError]:
    """The names that a binding lacks, which are declared as well."""
    problems = [] if binding["roleRef"].get("name") else [required("roleRef.name")]
    for index, subject in enumerate(binding.get("subjects") or ()):
        if not subject.get("name"):
            problems.append(required(f"subjects[{index}].name"))
    return problems


def missing_verb_problems(rules: Any, path: str) -> list[FieldError]:
    """The rules without verbs. Upstream declares this requirement with the type, and checks declared requirements after all other rules."""
    return [required(f"{path}[{index}].verbs") for index, rule in enumerate(rules) if not rule.get("verbs")]


def rule_problems(rules: Any, path: str, *, namespaced: bool) -> list[FieldError]:
    """The problems of policy rules, but for missing verbs."""
    problems: list[FieldError] = []
    for index, rule in enumerate(rules):
        here = f"{path}[{index}]"
        if urls := rule.get("nonResourceURLs"):
            if namespaced:
                problems.append(invalid(f"{here}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                problems.append(invalid(f"{here}.nonResourceURLs", urls, detail))
            continue
        if not rule.get("apiGroups"):
            problems.append(required(f"{here}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            problems.append(required(f"{here}.resources", "resource rules must supply at least one resource"))
    return problems
