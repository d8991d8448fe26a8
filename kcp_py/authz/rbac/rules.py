"""Policy rules: what a rule allows, which rules cover others, and how messages print them. Pure.

Source: kubernetes `pkg/apis/rbac/v1/evaluation_helpers.go`, k8s.io/component-helpers `auth/rbac/validation/policy_comparator.go`,
kubernetes `pkg/registry/rbac/validation/policy_compact.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.golang.quoting import go_quote
from kcp_py.request.requestinfo import RequestInfo

ALL: Final = "*"


class PolicyRule(NamedTuple):
    """A rule of a Role or ClusterRole: either for resources or for URLs. Fields that are absent are empty."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    """Empty for all names."""
    non_resource_urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The rule as messages about escalation print it (`CompactString`)."""
        fields = {
            "APIGroups": self.api_groups,
            "Resources": self.resources,
            "NonResourceURLs": self.non_resource_urls,
            "ResourceNames": self.resource_names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:[{' '.join(map(go_quote, values))}]" for name, values in fields.items() if values) + "}"


FULL_AUTHORITY: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), non_resource_urls=(ALL,)))
"""Everything that a rule can allow."""


def parse_rules(rules: Iterable[Mapping[str, Any] | None] | None) -> tuple[PolicyRule, ...]:
    """The rules of a Role or ClusterRole, from their JSON form. As in Go, null is the empty value at every place."""
    return tuple(
        PolicyRule(
            _strings(rule.get("verbs")),
            _strings(rule.get("apiGroups")),
            _strings(rule.get("resources")),
            _strings(rule.get("resourceNames")),
            _strings(rule.get("nonResourceURLs")),
        )
        for rule in (one or {} for one in rules or ())
    )


def _strings(values: Iterable[str | None] | None) -> tuple[str, ...]:
    return tuple(value or "" for value in values or ())


def rule_allows(rule: PolicyRule, info: RequestInfo) -> bool:
    """Whether a rule allows a request."""
    if ALL not in rule.verbs and info.verb not in rule.verbs:
        return False
    if not info.is_resource:
        return any(url_matches(url, info.path) for url in rule.non_resource_urls)
    if ALL not in rule.api_groups and info.group not in rule.api_groups:
        return False
    if rule.resource_names and info.name not in rule.resource_names:
        return False
    return any(resource in rule.resources for resource in resource_patterns(info.resource, info.subresource))


def resource_patterns(resource: str, subresource: str) -> tuple[str, ...]:
    """The entries of `resources` that match a resource or a subresource."""
    return (ALL, f"{resource}/{subresource}", f"*/{subresource}") if subresource else (ALL, resource)


def url_matches(pattern: str, path: str) -> bool:
    """Whether an entry of `nonResourceURLs` matches a path. All trailing asterisks are one wildcard."""
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def break_down(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Rules of one verb, and one resource, resource name or URL each, which together are equivalent to the rule."""
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                part = PolicyRule((verb,), (group,), (resource,))
                if not rule.resource_names:
                    yield part
                for name in rule.resource_names:
                    yield part._replace(resource_names=(name,))
    for url in rule.non_resource_urls:
        for verb in rule.verbs:
            yield PolicyRule((verb,), non_resource_urls=(url,))


def uncovered(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The parts of rules that other rules do not contain.

    The work is bounded, since a rule of some thousand words has billions of parts: rules beyond `_MOST_PARTS` are uncovered as a whole,
    unless a single rule contains them. Kubernetes has no such bound.

    Args:
        held: the rules that the author of a role has.
        wanted: the rules of the role.

    Returns:
        Rules as `break_down` makes them, or whole rules beyond the bound; empty where everything is covered.
    """
    missing: list[PolicyRule] = []
    owners = [rule_sets(rule) for rule in held]
    left = _MOST_PARTS
    for rule in wanted:
        parts = _count_parts(rule)
        if parts > 1:
            left -= 1
            if left >= 0 and any(_contains(owner, rule) for owner in owners):
                continue
        left -= parts
        if left < 0:
            missing.append(rule)
        else:
            missing += [part for part in break_down(rule) if not any(_covers(owner, part) for owner in owners)]
    return missing


_MOST_PARTS: Final = 10_000


def _count_parts(rule: PolicyRule) -> int:
    resources = len(rule.api_groups) * len(rule.resources) * max(1, len(rule.resource_names))
    return (resources + len(rule.non_resource_urls)) * len(rule.verbs)


class RuleSets(NamedTuple):
    """The words of a rule as sets, for rules of many words and for rules that many requests or rules are compared with."""

    verbs: frozenset[str]
    api_groups: frozenset[str]
    resources: frozenset[str]
    resource_names: frozenset[str]
    non_resource_urls: tuple[str, ...]

    def allows_resource(self, info: RequestInfo) -> bool:
        """Whether the rule allows a request for a resource. The time does not depend on the number of its words."""
        return (
            (ALL in self.verbs or info.verb in self.verbs)
            and (ALL in self.api_groups or info.group in self.api_groups)
            and (not self.resource_names or info.name in self.resource_names)
            and any(pattern in self.resources for pattern in resource_patterns(info.resource, info.subresource))
        )


def rule_sets(rule: PolicyRule) -> RuleSets:
    """The words of a rule as sets."""
    words = (frozenset(rule.verbs), frozenset(rule.api_groups), frozenset(rule.resources), frozenset(rule.resource_names))
    return RuleSets(*words, rule.non_resource_urls)


def _contains(owner: RuleSets, rule: PolicyRule) -> bool:
    """Whether a rule contains all parts of a rule for resources. The work is proportional to the words of the latter."""
    return (
        not rule.non_resource_urls
        and (ALL in owner.verbs or owner.verbs.issuperset(rule.verbs))
        and (ALL in owner.api_groups or owner.api_groups.issuperset(rule.api_groups))
        and (ALL in owner.resources or owner.resources.issuperset(rule.resources))
        and (not owner.resource_names or (bool(rule.resource_names) and owner.resource_names.issuperset(rule.resource_names)))
    )


def _covers(owner: RuleSets, part: PolicyRule) -> bool:
    """Whether a rule contains a rule of one verb and one resource or URL."""
    if ALL not in owner.verbs and part.verbs[0] not in owner.verbs:
        return False
    if part.non_resource_urls:
        return any(url_matches(url, part.non_resource_urls[0]) for url in owner.non_resource_urls)
    if ALL not in owner.api_groups and part.api_groups[0] not in owner.api_groups:
        return False
    if owner.resource_names and (not part.resource_names or part.resource_names[0] not in owner.resource_names):
        return False
    resource = part.resources[0]
    _, slash, subresource = resource.partition("/")
    return ALL in owner.resources or resource in owner.resources or (bool(slash) and f"*/{subresource}" in owner.resources)


def describe(rules: Iterable[PolicyRule]) -> list[str]:
    """The lines of a message about missing rules, sorted. Rules that differ in the verb alone are one line (`CompactRules`)."""
    verbs: dict[PolicyRule, list[str]] = {}
    others: list[PolicyRule] = []
    for rule in rules:
        if len(rule.resource_names) > 1 or rule.non_resource_urls or len(rule.api_groups) != 1 or len(rule.resources) != 1:
            others.append(rule)
        else:
            verbs.setdefault(rule._replace(verbs=()), []).extend(rule.verbs)
    compacted = [*others, *(rule._replace(verbs=tuple(found)) for rule, found in verbs.items())]
    return sorted({str(rule) for rule in compacted})
