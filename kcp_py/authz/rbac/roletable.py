"""`RoleTable`: the rules of one role, indexed for decisions. Small tables of equal rules are shared by all clusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kcp_py.authz.rbac.rules import ALL, PolicyRule, RuleSets, resource_patterns, rule_allows, rule_sets
from kcp_py.request.requestinfo import RequestInfo

_CACHED_TABLES: Final = 1024
_MOST_SHARED: Final = 2000
"""Characters of the rules whose table is shared."""
_CACHED_ENTRIES: Final = 1024
_CACHED_ENTRY_CHARACTERS: Final = 512
"""The words of an access review can be megabytes long."""
_MOST_ENTRIES: Final = 2000
"""Rules beyond this number of combinations of verbs, groups, resources and names are matched one by one, unless they have no more
combinations than words: a role of 100 kB could make a table of gigabytes, and one of many small rules is not searched from end to end."""

Entry = tuple[str, str, str]
"""Verb, API group and an entry of `resources`."""


class RoleTable(NamedTuple):
    """What a role allows."""

    rules: tuple[PolicyRule, ...]
    entries: dict[Entry, frozenset[str] | None]
    """The allowed names; None for all."""
    urls: tuple[PolicyRule, ...]
    large: tuple[RuleSets, ...]
    """Rules for resources that are not among the entries."""

    @property
    def size(self) -> int:
        """How much memory the entries take: their number, and that of their names."""
        return sum(1 + len(names or ()) for names in self.entries.values())

    def allows(self, info: RequestInfo, entries: Sequence[Entry]) -> bool:
        """Whether the role allows a request.

        Args:
            info: the request.
            entries: `entries_of(info)`, computed once for all roles.
        """
        if not info.is_resource:
            return any(rule_allows(rule, info) for rule in self.urls)
        table = self.entries
        if table and not table.keys().isdisjoint(entries):
            for entry in entries:
                if entry in table:
                    names = table[entry]
                    if names is None or info.name in names:
                        return True
        return bool(self.large) and any(rule.allows_resource(info) for rule in self.large)


def entries_of(info: RequestInfo) -> Sequence[Entry]:
    """The entries of a table that match a request for a resource; none for a request for a URL."""
    if not info.is_resource:
        return ()
    words = (info.verb, info.group, info.resource, info.subresource)
    return _cached_entries(*words) if sum(map(len, words)) <= _CACHED_ENTRY_CHARACTERS else _entries(*words)


def _entries(verb: str, group: str, resource: str, subresource: str) -> Sequence[Entry]:
    found: list[Entry] = []
    for pattern in resource_patterns(resource, subresource):
        found += [(verb, group, pattern), (verb, ALL, pattern), (ALL, group, pattern), (ALL, ALL, pattern)]
    return tuple(found)


_cached_entries = lru_cache(maxsize=_CACHED_ENTRIES)(_entries)


def table_of(rules: tuple[PolicyRule, ...]) -> RoleTable:
    """The table of a role's rules, which is never changed. Small ones are shared, also with later roles: they outlive their role."""
    words = [word for rule in rules for values in rule for word in values]
    return _shared_table(rules) if sum(map(len, words)) + len(words) <= _MOST_SHARED else _build(rules)


def plain_table(rules: tuple[PolicyRule, ...]) -> RoleTable:
    """A table without entries, which takes no more memory than the rules: they are matched one by one."""
    return RoleTable(rules, {}, tuple(rule for rule in rules if rule.non_resource_urls), tuple(map(rule_sets, rules)))


def _build(rules: tuple[PolicyRule, ...]) -> RoleTable:
    entries: dict[Entry, set[str] | None] = {}
    large: list[RuleSets] = []
    size = 0
    for rule in rules:
        count = len(rule.verbs) * len(rule.api_groups) * len(rule.resources) * max(1, len(rule.resource_names))
        if count > sum(map(len, rule)) and size + count > _MOST_ENTRIES:
            large.append(rule_sets(rule))
            continue
        size += count
        for entry in [(verb, group, resource) for group in rule.api_groups for resource in rule.resources for verb in rule.verbs]:
            names = entries.setdefault(entry, set())
            if not rule.resource_names:
                entries[entry] = None
            elif names is not None:
                names.update(rule.resource_names)
    urls = tuple(rule for rule in rules if rule.non_resource_urls)
    frozen = {entry: frozenset(names) if names is not None else None for entry, names in entries.items()}
    return RoleTable(rules, frozen, urls, tuple(large))


_shared_table: Final = lru_cache(maxsize=_CACHED_TABLES)(_build)
