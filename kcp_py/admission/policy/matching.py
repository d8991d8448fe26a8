"""The requests that policies and bindings select: rules, selectors, equivalent resources. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/matching` and `pkg/admission/plugin/webhook/predicates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apimachinery.meta.selectors import EVERYTHING, LabelSelector, label_selector_of

_NAMESPACES: Final = GroupResource("", "namespaces")


class Asked(NamedTuple):
    """A request as rules see it."""

    operation: str
    resource: GroupVersionResource
    subresource: str
    namespace: str
    """A request about a Namespace has its name here."""
    name: str


class Rule(NamedTuple):
    """A rule of `resourceRules` or `excludeResourceRules`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resources and subresources; `*` is all of them."""
    scope: str
    names: frozenset[str]
    """Empty for all names."""

    def may_select(self, resource: GroupResource) -> bool:
        """Whether the rule selects any request about a resource or one of its subresources."""
        return _has(self.groups, resource.group) and any(name in {"*", resource.resource} for name, _ in self.resources)

    def selects(self, asked: Asked, resource: GroupVersionResource) -> bool:
        """Whether the rule selects a request, seen as one about `resource`."""
        return (
            _has(self.operations, asked.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and self._has_resource(resource.resource, asked.subresource)
            and (self.scope == "*" or self._has_scope(asked.namespace, resource))
            and (not self.names or asked.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        # A generator would take several times as long, and this is asked for each rule and write.
        for name, below in self.resources:  # noqa: SIM110
            if (name == resource or name == "*") and (below == subresource or below == "*"):  # noqa: PLR1714
                return True
        return False

    def _has_scope(self, namespace: str, resource: GroupVersionResource) -> bool:
        is_namespaced = bool(namespace) and resource.group_resource != _NAMESPACES
        return is_namespaced == (self.scope == "Namespaced")


def _has(values: frozenset[str], value: str) -> bool:
    return "*" in values or value in values


class Matching(NamedTuple):
    """What `matchConstraints` or `matchResources` say."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    is_exact: bool
    """Whether rules select a resource in the version of the request alone."""
    namespaces: LabelSelector
    objects: LabelSelector

    def may_select(self, resource: GroupResource) -> bool:
        """Whether any request about a resource is selected."""
        return not self.rules or any(rule.may_select(resource) for rule in self.rules)

    def resource_of(self, asked: Asked, equivalents: Sequence[GroupVersionResource]) -> GroupVersionResource | None:
        """The resource as which the rules select a request; None where they do not.

        Args:
            asked: the request.
            equivalents: other versions and groups in which the objects of the resource are served.
        """
        if self.excluded and self._first(self.excluded, asked, equivalents) is not None:
            return None
        return self._first(self.rules, asked, equivalents) if self.rules else asked.resource

    def _first(self, rules: Sequence[Rule], asked: Asked, equivalents: Sequence[GroupVersionResource]) -> GroupVersionResource | None:
        for rule in rules:
            if rule.selects(asked, asked.resource):
                return asked.resource
        if self.is_exact or not equivalents:
            return None
        return next((resource for rule in rules for resource in equivalents if rule.selects(asked, resource)), None)

    def selects_objects(self, obj: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> bool:
        """Whether the new or the old object has the labels that are asked for."""
        return self.objects.empty or any(isinstance(one, Mapping) and self.objects.matches(labels_of(one)) for one in (obj, old))


EVERY_REQUEST: Final = Matching((), (), is_exact=False, namespaces=EVERYTHING, objects=EVERYTHING)


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of an object."""
    metadata = obj.get("metadata")
    return (metadata.get("labels") or {}) if isinstance(metadata, Mapping) else {}


def parse_matching(matching: Mapping[str, Any] | None) -> Matching:
    """Parse a valid `matchConstraints` or `matchResources`.

    Raises:
        ValueError: a selector is not valid.
    """
    if matching is None:
        return EVERY_REQUEST
    return Matching(
        tuple(map(_parse_rule, matching.get("resourceRules") or ())),
        tuple(map(_parse_rule, matching.get("excludeResourceRules") or ())),
        matching.get("matchPolicy") == "Exact",
        label_selector_of(matching.get("namespaceSelector") or {}),
        label_selector_of(matching.get("objectSelector") or {}),
    )


def _parse_rule(rule: Mapping[str, Any]) -> Rule:
    resources = [resource.partition("/") for resource in rule.get("resources") or ()]
    return Rule(
        frozenset(rule.get("operations") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("apiVersions") or ()),
        tuple((name, subresource) for name, _, subresource in resources),
        rule.get("scope") or "*",
        frozenset(rule.get("resourceNames") or ()),
    )
