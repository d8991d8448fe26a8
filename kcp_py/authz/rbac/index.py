"""`RBACIndex`: the roles and bindings of one logical cluster, indexed by subject.

Source: kubernetes `pkg/registry/rbac/validation/rule.go` (`DefaultRuleResolver`), `plugin/pkg/auth/authorizer/rbac/rbac.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.authz.rbac.bindings import Binding, Place, Subject, parse_binding, subjects_of
from kcp_py.authz.rbac.mergedtable import MergedTable
from kcp_py.authz.rbac.roletable import Entry, RoleTable, entries_of, plain_table, table_of
from kcp_py.authz.rbac.rules import PolicyRule, parse_rules
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import UserInfo

ACCESS: Final = UNPARSED._replace(verb="access", path="/")
"""The request that a user must be allowed to enter a cluster: the verb `access` on the URL `/`."""

_MOST_ENTERING: Final = 100
"""Users of a cluster. They are not counted with its memory, so there are few: at most 100 KB."""
_LONGEST_ENTERING: Final = 1000
"""Characters of the name and of the groups of a user whose permission to enter is kept: reviews name users of megabytes."""
_MOST_GROUPS: Final = 64
"""Groups of a user beyond which `known` removes those that no binding names."""
_MOST_ENTRIES: Final = 100_000
"""Entries of all tables of a cluster. Roles beyond have tables without entries: 10,000 roles could make tables of gigabytes."""
_ROLE_BYTES: Final = 700
_BINDING_BYTES: Final = 800
_SUBJECT_BYTES: Final = 400
_WORD_BYTES: Final = 60
_ENTRY_BYTES: Final = 110
_MOST_TABLE_ENTRIES: Final = 2_000
"""Of one rule, about: rules with more combinations are matched one by one."""
_MOST_UNMERGED: Final = 8
"""A subject with more bindings in one place has a table of its own. The bindings of others use the tables that roles share."""


class Grant(NamedTuple):
    """A role that is bound to a user."""

    binding: Binding
    rules: tuple[PolicyRule, ...] | None
    """None where the role does not exist."""


_NOTHING: Final[Mapping[Place, Binding]] = {}
_NO_SUBJECTS: Final[Mapping[Subject, Mapping[Place, Binding]]] = {}


class _Budget:
    """How many entries the tables of a cluster may have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MOST_ENTRIES


class _Role:
    """The rules of a role, and their table, which is built when it is first used."""

    __slots__ = ("_budget", "_table", "rules")

    def __init__(self, rules: tuple[PolicyRule, ...], budget: _Budget) -> None:
        self.rules = rules
        self._budget = budget
        self._table: RoleTable | None = None

    @property
    def table(self) -> RoleTable:
        if self._table is None:
            self._table = table_of(self.rules) if self._budget.left > 0 else plain_table(self.rules)
            self._budget.left -= self._table.size
        return self._table

    def give_back(self) -> None:
        """Return the entries of the table to the budget: the role is removed."""
        if self._table is not None:
            self._budget.left += self._table.size


class RBACIndex:
    """The roles and bindings of a cluster, on top of those that every cluster inherits.

    An own object hides the inherited one of its name. Objects are put and removed one by one, which costs no more in a cluster with
    thousands of them.
    """

    __slots__ = (
        "_bindings",
        "_budget",
        "_by_subject",
        "_entering",
        "_groups",
        "_hiding",
        "_inherited",
        "_merged",
        "_missing",
        "_referred",
        "_roles",
        "memory",
        "state",
    )

    def __init__(self, inherited: RBACIndex | None = None) -> None:
        self.state: object = object()
        """Replaced by each change. Decisions that were made with the present value still hold."""
        self.memory = 0
        """Bytes that roles and bindings take, with their tables, about."""
        self._inherited = inherited
        self._roles: dict[Place, _Role] = {}
        self._bindings: dict[Place, Binding] = {}
        self._by_subject: dict[Subject, dict[Place, Binding]] = {}
        self._budget = _Budget()
        self._groups: Counter[str] = Counter()
        """The groups that bindings have as subjects."""
        self._referred: Counter[Place | None] = Counter()
        """The roles that bindings refer to, whether or not they exist; None for references to no role."""
        self._missing: set[Place | None] = set()
        """The referred roles that do not exist. Nearly all clusters have an empty set."""
        self._merged: dict[Subject, MergedTable] = {}
        """The tables of subjects with many bindings, from their first use until a role or a binding of the subject changes."""
        self._hiding: set[tuple[str, Place]] = set()
        """The own roles and bindings that hide inherited ones. Nearly all clusters have an empty set."""
        self._entering: dict[tuple[str, tuple[str, ...]], bool] = {}
        """Results of `may_enter` since the last change, by name and groups of the user."""

    def put_role(self, place: Place, role: Mapping[str, Any] | None) -> None:
        """Add or replace a Role or ClusterRole; None removes it."""
        self._merged.clear()
        below = self._inherited
        # The new role may also be one that an inherited binding refers to and that did not exist.
        hides = role is not None and below is not None and (place in below._roles or place in below._referred)  # noqa: SLF001 - of the same class
        self._note_hiding("role", place, hides=hides)
        before = self._roles.pop(place, None)
        if before is not None:
            before.give_back()
            self.memory -= _role_memory(before.rules)
        if role is not None:
            made = self._roles[place] = _Role(parse_rules(role.get("rules")), self._budget)
            self.memory += _role_memory(made.rules)
        self._note_missing(place)

    def put_binding(self, place: Place, binding: Mapping[str, Any] | None) -> None:
        """Add or replace a RoleBinding or ClusterRoleBinding; None removes it."""
        self._note_hiding(
            "binding",
            place,
            hides=binding is not None and self._inherited is not None and place in self._inherited._bindings,  # noqa: SLF001
        )
        before = self._bindings.pop(place, None)
        if before is not None:
            self.memory -= _binding_memory(before)
            self._referred[before.role] -= 1
            if not self._referred[before.role]:
                del self._referred[before.role]
            self._note_missing(before.role)
        for subject in before.subjects if before is not None else ():
            self._merged.pop(subject, None)
            self._count_group(subject, -1)
            bound = self._by_subject[subject]
            del bound[place]
            if not bound:
                del self._by_subject[subject]
        if binding is None:
            return
        made = self._bindings[place] = parse_binding(place, binding)
        self.memory += _binding_memory(made)
        self._referred[made.role] += 1
        self._note_missing(made.role)
        for subject in made.subjects:
            self._count_group(subject, 1)
            self._by_subject.setdefault(subject, {})[place] = made
            if (merged := self._merged.get(subject)) is not None:
                self._merge(merged, made)

    def _count_group(self, subject: Subject, change: int) -> None:
        _, kind, name = subject
        if kind == "Group":
            self._groups[name] += change
            if not self._groups[name]:
                del self._groups[name]

    def _note_hiding(self, kind: str, place: Place, *, hides: bool) -> None:
        self.state = object()
        self._entering.clear()
        (self._hiding.add if hides else self._hiding.discard)((kind, place))

    def _note_missing(self, role: Place | None) -> None:
        missing = role in self._referred and self._role(role) is None
        (self._missing.add if missing else self._missing.discard)(role)

    def rules_of(self, role: Place) -> tuple[PolicyRule, ...] | None:
        """The rules of a Role or ClusterRole; None if the role does not exist."""
        found = self._role(role)
        return found.rules if found is not None else None

    def _role(self, place: Place | None) -> _Role | None:
        if place is None:
            return None
        role = self._roles.get(place)
        return role if role is not None or self._inherited is None else self._inherited._role(place)  # noqa: SLF001

    def grants(self, user: UserInfo, namespace: str) -> Iterator[Grant]:
        """The roles that are bound to a user: cluster-wide, then in a namespace, if one is named. No binding is repeated."""
        for scope in ("", namespace) if namespace else ("",):
            seen: set[Place] = set()
            for subject in subjects_of(user, scope):
                for binding in self._bound(subject):
                    if binding.place not in seen:
                        seen.add(binding.place)
                        role = self._role(binding.role)
                        yield Grant(binding, role.rules if role is not None else None)

    def _bound(self, subject: Subject) -> Iterator[Binding]:
        yield from self._by_subject.get(subject, _NOTHING).values()
        if self._inherited is not None:
            yield from (one for one in self._inherited._bound(subject) if one.place not in self._bindings)  # noqa: SLF001

    def known(self, user: UserInfo) -> UserInfo:
        """The user without groups that no binding has, if there are many: a review can name 500,000 of them."""
        if len(user.groups) <= _MOST_GROUPS:
            return user
        inherited = self._inherited._groups if self._inherited is not None else self._groups  # noqa: SLF001
        groups = dict.fromkeys(user.groups)
        return user._replace(groups=tuple(group for group in groups if group in self._groups or group in inherited))

    def may_enter(self, user: UserInfo) -> bool:
        """Whether a user has the verb `access` on the URL `/`, which every request requires."""
        key = (user.name, user.groups)
        found = self._entering.get(key)
        if found is None:
            if len(self._entering) >= _MOST_ENTERING:
                self._entering.clear()
            found = self.allowing(user, ACCESS) is not None
            if len(user.name) + sum(map(len, user.groups)) <= _LONGEST_ENTERING:
                self._entering[key] = found
        return found

    def allowing(self, user: UserInfo, info: RequestInfo) -> Binding | None:
        """A binding that allows a request; None where it is not allowed."""
        entries = entries_of(info)
        namespace = info.namespace
        own = self._by_subject
        below = self._inherited._by_subject if self._inherited is not None else _NO_SUBJECTS  # noqa: SLF001
        for scope in ("", namespace) if namespace else ("",):
            for subject in subjects_of(user, scope):
                bound = own.get(subject)
                if bound is not None and (binding := self._allowing(subject, bound, info, entries)) is not None:
                    return binding
                if subject in below and (binding := self._inherited_allowing(subject, below[subject], info, entries)) is not None:
                    return binding
        return None

    def _allowing(self, subject: Subject, bound: Mapping[Place, Binding], info: RequestInfo, entries: Sequence[Entry]) -> Binding | None:
        """One of the bindings of a subject in this index that allows a request."""
        # The inherited index is shared by all clusters, and so are its tables.
        if len(bound) > _MOST_UNMERGED or self._inherited is None:
            return self._merged_table(subject, bound).find(info, entries)
        return self._first_allowing(bound, info, entries)

    def _inherited_allowing(
        self, subject: Subject, bound: Mapping[Place, Binding], info: RequestInfo, entries: Sequence[Entry]
    ) -> Binding | None:
        """One of the inherited bindings of a subject that allows a request."""
        if not self._hiding and self._inherited is not None:
            return self._inherited._allowing(subject, bound, info, entries)  # noqa: SLF001
        return self._first_allowing({place: one for place, one in bound.items() if place not in self._bindings}, info, entries)

    def _first_allowing(self, bound: Mapping[Place, Binding], info: RequestInfo, entries: Sequence[Entry]) -> Binding | None:
        own = self._roles
        for binding in bound.values():
            place = binding.role
            role = own[place] if place in own else self._role(place)
            if role is not None and role.table.allows(info, entries):
                return binding
        return None

    def _merged_table(self, subject: Subject, bound: Mapping[Place, Binding]) -> MergedTable:
        merged = self._merged.get(subject)
        if merged is None:
            merged = self._merged[subject] = MergedTable()
            for binding in bound.values():
                self._merge(merged, binding)
        return merged

    def _merge(self, merged: MergedTable, binding: Binding) -> None:
        role = self._role(binding.role)
        if role is not None:
            merged.add(role.table, binding)

    def rules_for(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        """All rules that apply to a user in a namespace. Rules of a role that is bound several times are listed once."""
        roles = {grant.binding.role: grant.rules for grant in self.grants(user, namespace)}
        return [rule for rules in roles.values() for rule in rules or ()]

    def missing_roles(self, user: UserInfo, namespace: str) -> list[str]:
        """Errors about bindings of a user whose role does not exist, as upstream words them."""
        if not self._missing and (self._inherited is None or not self._inherited._missing):  # noqa: SLF001
            return []
        return list(dict.fromkeys(grant.binding.role_error() for grant in self.grants(user, namespace) if grant.rules is None))


def _role_memory(rules: Sequence[PolicyRule]) -> int:
    """Bytes of a role with its table, where no other role has the same rules."""
    words = [word for rule in rules for values in rule for word in values]
    combinations = (len(rule.verbs) * len(rule.api_groups) * len(rule.resources) * max(1, len(rule.resource_names)) for rule in rules)
    entries = sum(min(count, _MOST_TABLE_ENTRIES) for count in combinations)
    return _ROLE_BYTES + _WORD_BYTES * len(words) + sum(map(len, words)) + _ENTRY_BYTES * entries


def _binding_memory(binding: Binding) -> int:
    """Bytes of a binding with its places in the index."""
    return _BINDING_BYTES + sum(_SUBJECT_BYTES + len(name) for _, _, name in binding.subjects)
