"""`RoleTable`: the rules of one role, indexed for decisions. Equal rules share one table, in whatever clusters they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kcp_py.authz.rbac.rules import ALL, PolicyRule, resource_patterns, rule_allows
from kcp_py.request.requestinfo import RequestInfo

_CACHED_TABLES: Final = 4096
_MOST_ENTRIES: Final = 2000
"""Rules beyond this number of combinations of verbs, groups and resources are matched one by one, unless they have no more combinations
than words: a role cannot make a table of gigabytes, and one of many small rules is not searched from end to end."""

Entry = tuple[str, str, str]
"""Verb, API group and an entry of `resources`."""


class LargeRule(NamedTuple):
    """A rule for resources that has too many combinations for a table."""

    verbs: frozenset[str]
    api_groups: frozenset[str]
    resources: frozenset[str]
    resource_names: frozenset[str]

    def allows(self, info: RequestInfo) -> bool:
        """Whether the rule allows a request for a resource. The time does not depend on the number of its words."""
        return (
            (ALL in self.verbs or info.verb in self.verbs)
            and (ALL in self.api_groups or info.group in self.api_groups)
            and (not self.resource_names or info.name in self.resource_names)
            and any(pattern in self.resources for pattern in resource_patterns(info.resource, info.subresource))
        )


class RoleTable(NamedTuple):
    """What a role allows."""

    rules: tuple[PolicyRule, ...]
    entries: dict[Entry, frozenset[str] | None]
    """The allowed names; None for all."""
    urls: tuple[PolicyRule, ...]
    large: tuple[LargeRule, ...]
    """Rules for resources that are not among the entries."""

    def allows(self, info: RequestInfo, entries: Sequence[Entry]) -> bool:
        """Whether the role allows a request.

        Args:
            info: the request.
            entries: `entries_of(info)`, computed once for all roles.
        """
        if not info.is_resource:
            return any(rule_allows(rule, info) for rule in self.urls)
        table = self.entries
        for entry in entries:
            if entry in table:
                names = table[entry]
                if names is None or info.name in names:
                    return True
        return bool(self.large) and any(rule.allows(info) for rule in self.large)


def entries_of(info: RequestInfo) -> Sequence[Entry]:
    """The entries of a table that match a request for a resource; none for a request for a URL."""
    if not info.is_resource:
        return ()
    verb, group = info.verb, info.group
    found = []
    for pattern in resource_patterns(info.resource, info.subresource):
        found += [(verb, group, pattern), (verb, ALL, pattern), (ALL, group, pattern), (ALL, ALL, pattern)]
    return found


@lru_cache(maxsize=_CACHED_TABLES)
def table_of(rules: tuple[PolicyRule, ...]) -> RoleTable:
    """The table of a role's rules, which is shared and never changed."""
    entries: dict[Entry, frozenset[str] | None] = {}
    large: list[LargeRule] = []
    for rule in rules:
        count, words = len(rule.verbs) * len(rule.api_groups) * len(rule.resources), len(rule.verbs) + len(rule.resources)
        if count > words and len(entries) + count > _MOST_ENTRIES:
            large.append(LargeRule(*map(frozenset, (rule.verbs, rule.api_groups, rule.resources, rule.resource_names))))
            continue
        names = frozenset(rule.resource_names) or None
        for entry in [(verb, group, resource) for group in rule.api_groups for resource in rule.resources for verb in rule.verbs]:
            before = entries.get(entry, frozenset())
            entries[entry] = None if names is None or before is None else before | names
    return RoleTable(rules, entries, tuple(rule for rule in rules if rule.non_resource_urls), tuple(large))
