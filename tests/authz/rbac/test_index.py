"""The index of roles and bindings answers as an evaluator does that goes through all of them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.authz.rbac.bindings import Place
from kcp_py.authz.rbac.index import RBACIndex
from kcp_py.authz.rbac.rules import PolicyRule, parse_rules
from kcp_py.request.user import UserInfo
from tests.authz.rbac.generated import resource_request, url_request
from tests.authz.rbac.naive import NaiveEvaluator
from tests.authz.rbac.objects import ACCOUNT, GET_PODS, READER, binding, index_of

USERS = (
    UserInfo("alice"),
    UserInfo("bob", "", ("team", "staff")),
    UserInfo("carol", "", ("staff", "team", "staff")),
    UserInfo(ACCOUNT, "", ("system:serviceaccounts", "team")),
    UserInfo("system:serviceaccount:n2:robot"),
    UserInfo("", "", ("",)),
)
REQUESTS = (
    *(
        resource_request(verb, group, resource, subresource, namespace=namespace, name=name)
        for verb in ("get", "list")
        for group, resource, subresource in (("", "pods", ""), ("", "pods", "log"), ("apps", "deployments", "log"))
        for namespace in ("", "n1", "n2")
        for name in ("", "a")
    ),
    url_request("get", "/api"),
    url_request("get", "/api/v1"),
    url_request("post", "/"),
)

PLACES = st.tuples(st.sampled_from(("", "", "n1", "n2")), st.sampled_from(("a", "b", "c", "d")))
RULES = st.fixed_dictionaries({}, optional={
    "verbs": st.sampled_from([["get"], ["*"], ["list", "get"], [], None]),
    "apiGroups": st.sampled_from([[""], ["*"], ["apps", ""], [], None]),
    "resources": st.sampled_from([["pods"], ["*"], ["*/log"], ["pods/log", "deployments"], None]),
    "resourceNames": st.sampled_from([["a"], ["b"], [], None]),
    "nonResourceURLs": st.sampled_from([["/api"], ["/api/*"], ["*"], [], None]),
})  # fmt: skip
ROLES = st.fixed_dictionaries({}, optional={"rules": st.none() | st.lists(RULES, max_size=3)})
SUBJECTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("User", "Group", "ServiceAccount", "Odd")),
        "name": st.sampled_from(("alice", "team", "staff", "robot", ACCOUNT, "")),
    },
    optional={"namespace": st.sampled_from(("n1", "n2", ""))},
)  # fmt: skip
REFERENCES = st.fixed_dictionaries(
    {"kind": st.sampled_from(("ClusterRole", "ClusterRole", "Role", "Odd")), "name": st.sampled_from(("a", "b", "c", "missing"))}
)
BINDINGS = st.fixed_dictionaries({"roleRef": REFERENCES}, optional={"subjects": st.none() | st.lists(SUBJECTS, max_size=4)})
CHANGES = st.lists(
    st.tuples(st.just("role"), PLACES, st.none() | ROLES) | st.tuples(st.just("binding"), PLACES, st.none() | BINDINGS), max_size=25
)
Change = tuple[str, Place, dict[str, Any] | None]


class Cluster:
    """An index and the objects that are in it."""

    def __init__(self, inherited: Cluster | None = None) -> None:
        self.index: RBACIndex = RBACIndex(inherited.index if inherited is not None else None)
        self.objects: dict[str, dict[Place, dict[str, Any]]] = {"role": {}, "binding": {}}
        self._inherited = inherited

    def change(self, change: Change) -> None:
        kind, place, value = change
        obj = None if value is None else {**value, "metadata": {"namespace": place[0], "name": place[1]}}
        put = self.index.put_role if kind == "role" else self.index.put_binding
        put(place, obj)
        if obj is None:
            self.objects[kind].pop(place, None)
        else:
            self.objects[kind][place] = obj

    def effective(self, kind: str) -> dict[Place, dict[str, Any]]:
        below = self._inherited.effective(kind) if self._inherited is not None else {}
        return {**below, **self.objects[kind]}

    def compare(self) -> Counter[bool]:
        """Compare all decisions, and return how many there were of each kind."""
        decided = Counter[bool]()
        naive = NaiveEvaluator(self.effective("role"), self.effective("binding"))
        for user in USERS:
            for info in REQUESTS:
                allowing = naive.allowing(user, info)
                allowed_by = self.index.allowing(user, info)
                decided[allowed_by is not None] += 1
                if allowed_by is None:
                    assert not allowing, (user, info)
                else:
                    assert allowed_by.describe(user) in allowing, (user, info)
            for namespace in ("", "n1", "n2", "n3"):
                rules = Counter(self.index.rules_for(user, namespace))
                assert rules == Counter(parse_rules(naive.rules_for(user, namespace)))
                assert set(self.index.missing_roles(user, namespace)) == naive.missing_roles(user, namespace)
        return decided


def random_changes(random: Random) -> list[Change]:
    """Changes of which many take effect: most roles allow something, and most bindings name one of them and one of the users."""

    def rule() -> dict[str, Any]:
        found = {"verbs": random.choice([["get"], ["*"], ["list", "get"], None]), "apiGroups": random.choice([[""], ["*"], ["apps", ""]])}
        if random.random() < 0.2:
            return {"verbs": ["get"], "nonResourceURLs": [random.choice(["/api", "/api/*", "*"])]}
        found["resources"] = random.choice([["pods"], ["*"], ["*/log"], ["pods/log", "deployments"]])
        return {**found, "resourceNames": ["a"]} if random.random() < 0.2 else found

    def binding() -> dict[str, Any]:
        kinds = {"alice": "User", "team": "Group", "staff": "Group", "robot": "ServiceAccount", ACCOUNT: "User"}
        names = random.sample(list(kinds), random.randint(0, 3))
        subjects = [{"kind": kinds[name], "name": name, **({"namespace": "n1"} if random.random() < 0.5 else {})} for name in names]
        kind = random.choice(["ClusterRole", "ClusterRole", "Role", "Odd"])
        return {"roleRef": {"kind": kind, "name": random.choice("abcx")}, "subjects": subjects}

    found: list[Change] = []
    for _ in range(random.randint(1, 40)):
        place = (random.choice(["", "", "n1", "n2"]), random.choice("abcdefghijkl"))
        kind = random.choice(["role", "binding", "binding"])
        value = (
            None if random.random() < 0.2 else binding() if kind == "binding" else {"rules": [rule() for _ in range(random.randint(0, 3))]}
        )
        found.append((kind, place, value))
    return found


def test_decisions_are_those_of_all_objects():
    """After every few changes, decisions with reasons, rules and errors are those of the objects that are there."""
    decided = Counter[bool]()
    for seed in range(100):
        random = Random(seed)
        below = Cluster()
        for change in random_changes(random):
            below.change(change)
        decided.update(below.compare())
        cluster = Cluster(below)
        for _ in range(4):
            for change in random_changes(random):
                cluster.change(change)
            decided.update(cluster.compare())
    assert decided.total() >= 100_000
    assert min(decided[True], decided[False]) >= 10_000


@given(CHANGES)
def test_removal_leaves_nothing(changes):
    """When all objects are removed again, the index is empty, and decides as what it inherits."""
    below = Cluster()
    below.change(("role", ("", "a"), {"rules": [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]}]}))
    below.change(("binding", ("", "a"), binding("a", {"kind": "Group", "name": "team"})))
    cluster = Cluster(below)
    for change in changes:
        cluster.change(change)
    for kind, place, _ in changes:
        cluster.change((kind, place, None))
        cluster.change((kind, place, None))
    index = cluster.index
    assert (index._roles, index._bindings, index._by_subject, index._groups) == ({}, {}, {}, {})
    cluster.compare()
    assert index._budget.left == RBACIndex()._budget.left


def test_tables_of_a_cluster_are_bounded():
    """Hundreds of roles with large tables are decided like others, in bounded memory; a deleted role makes room for others."""
    index = RBACIndex()
    words = [f"word-{number}" for number in range(45)]
    whole = index._budget.left
    for number in range(100):
        rules = [{"verbs": words, "apiGroups": [""], "resources": [*words[1:], f"r-{number}"]}]
        index.put_role(("", f"role-{number}"), {"rules": rules})
        index.put_binding(("", f"role-{number}"), binding(f"role-{number}", {"kind": "User", "name": "alice"}))
    for number in range(100):
        found = index.allowing(UserInfo("alice"), resource_request("word-3", "", f"r-{number}"))
        assert found is not None
        assert found.role_name == f"role-{number}"
    assert index.allowing(UserInfo("alice"), resource_request("word-3", "", "word-0")) is None
    assert sum(role.table.size for role in index._roles.values()) <= whole + 2000
    for number in range(100):
        index.put_role(("", f"role-{number}"), None)
    assert index._budget.left == whole


def test_many_groups_are_reduced_to_those_of_bindings():
    """A user with hundreds of thousands of groups gets the permissions of each of them, from the cluster and from what it inherits."""
    below = RBACIndex()
    below.put_binding(("", "below"), binding("reader", {"kind": "Group", "name": "g-7"}))
    index = RBACIndex(below)
    index.put_binding(("", "own"), binding("reader", {"kind": "Group", "name": "g-9"}))
    user = UserInfo("alice", "", tuple(f"g-{number % 100_000}" for number in range(200_000)))
    assert index.known(user) == user._replace(groups=("g-7", "g-9"))
    few = UserInfo("alice", "", ("g-1",))
    assert index.known(few) is few


def test_long_users_are_not_kept():
    """Whether users with names or groups of megabytes may enter is decided each time: reviews would fill the memory with them."""
    index = RBACIndex()
    index.put_role(("", "in"), {"rules": [{"verbs": ["access"], "nonResourceURLs": ["/"]}]})
    index.put_binding(("", "in"), binding("in", {"kind": "Group", "name": "team"}))
    for user in (UserInfo("x" * 1001, "", ("team",)), UserInfo("x", "", ("team", "y" * 1001))):
        assert index.may_enter(user)
        assert not index._entering
    assert index.may_enter(UserInfo("x", "", ("team",)))
    assert index._entering


def test_missing_roles():
    """Errors about roles are there once each, for the cluster and the namespace that was asked about."""
    alice = {"kind": "User", "name": "alice"}
    index = index_of({}, {
        ("", "a"): binding("x", alice), ("", "b"): binding("x", alice), ("n1", "a"): binding("y", alice, kind="Role"),
        ("n2", "a"): binding("z", alice, kind="Role"), ("n1", "b"): binding("x", {"kind": "User", "name": "bob"}),
    })  # fmt: skip
    cluster = 'clusterrole.rbac.authorization.k8s.io "x" not found'
    assert index.missing_roles(UserInfo("alice"), "") == [cluster]
    assert index.missing_roles(UserInfo("alice"), "n1") == [cluster, 'role.rbac.authorization.k8s.io "y" not found']


def test_own_objects_hide_inherited_ones():
    """A cluster's own role or binding takes the place of the inherited one of its name, until it is removed."""
    alice, bob = UserInfo("alice"), UserInfo("bob")
    inherited = index_of({("", "r"): READER}, {("", "b"): binding("r", {"kind": "User", "name": "alice"})})
    index = RBACIndex(inherited)
    assert index.allowing(alice, GET_PODS)
    index.put_role(("", "r"), {"rules": None})
    assert (index.allowing(alice, GET_PODS), index.rules_of(("", "r"))) == (None, ())
    index.put_role(("", "r"), None)
    index.put_binding(("", "b"), binding("r", {"kind": "User", "name": "bob"}))
    assert (index.allowing(alice, GET_PODS), index.allowing(bob, GET_PODS) is not None) == (None, True)
    index.put_binding(("", "b"), {"roleRef": {"kind": "ClusterRole", "name": "r"}})
    assert (index.allowing(alice, GET_PODS), index.allowing(bob, GET_PODS)) == (None, None)
    index.put_binding(("", "b"), None)
    assert index.allowing(alice, GET_PODS)
    assert inherited.allowing(alice, GET_PODS)


def test_a_binding_in_another_namespace_hides_nothing():
    """Objects of one name in a namespace and in the cluster are different objects."""
    inherited = index_of({("", "r"): READER}, {("", "b"): binding("r", {"kind": "User", "name": "alice"})})
    index = index_of({("n1", "r"): {}}, {("n1", "b"): binding("r", {"kind": "User", "name": "bob"})}, inherited)
    assert index.allowing(UserInfo("alice"), GET_PODS)
    assert index.rules_of(("n1", "r")) == ()
    assert index.rules_of(("", "r")) == (PolicyRule(("get",), ("",), ("pods",)),)
    assert index.rules_of(("n2", "r")) is None


@pytest.mark.parametrize("rules", [[None], [None, *READER["rules"]], [{"verbs": None}]])
def test_odd_roles_do_not_disturb(rules):
    """A rule that is null allows nothing, and the other rules of the role hold."""
    index = index_of({("", "r"): {"rules": rules}}, {("", "b"): binding("r", {"kind": "User", "name": "alice"})})
    assert (index.allowing(UserInfo("alice"), GET_PODS) is not None) is (len(rules) == 2)
