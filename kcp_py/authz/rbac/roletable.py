"""`RoleTable`: the rules of one role, indexed for decisions. Equal rules share one table, in whatever clusters they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kcp_py.authz.rbac.rules import ALL, PolicyRule, resource_patterns, rule_allows
from kcp_py.request.requestinfo import RequestInfo

_CACHED_TABLES: Final = 4096
_MOST_ENTRIES: Final = 2000
"""Rules that name more combinations of verbs, groups and resources are matched one by one: a role cannot make a table of gigabytes."""

Entry = tuple[str, str, str]
"""Verb, API group and an entry of `resources`."""


class RoleTable(NamedTuple):
    """What a role allows."""

    rules: tuple[PolicyRule, ...]
    entries: dict[Entry, frozenset[str] | None]
    """The allowed names; None for all."""
    urls: tuple[PolicyRule, ...]
    large: tuple[PolicyRule, ...]
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
        return bool(self.large) and any(rule_allows(rule, info) for rule in self.large)


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
    large: list[PolicyRule] = []
    for rule in rules:
        if len(entries) + len(rule.verbs) * len(rule.api_groups) * len(rule.resources) > _MOST_ENTRIES:
            large.append(rule)
            continue
        names = frozenset(rule.resource_names) or None
        for entry in [(verb, group, resource) for group in rule.api_groups for resource in rule.resources for verb in rule.verbs]:
            before = entries.get(entry, frozenset())
            entries[entry] = None if names is None or before is None else before | names
    return RoleTable(rules, entries, tuple(rule for rule in rules if rule.non_resource_urls), tuple(large))
