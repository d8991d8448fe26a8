"""Cluster roles that are composed of others."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.client import ObjectChange
from kcp_py.controllers.clusterroles import CLUSTER_ROLES, ClusterRoleController, composed
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from tests.client.registry import Registry

TEAM, OTHER = Name("team-a"), Name("team-b")
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


def rule(name: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [name], "verbs": ["get"]}


def rules_of(*names: str) -> list[dict[str, Any]]:
    return [rule(name) for name in names]


def role(name: str, rules: str | None = "", *, labels: str = "", selects: str | None = None, **metadata: Any) -> dict[str, Any]:
    """A role; `rules`, `labels` and `selects` are words, each a rule, a label or a selector of the label."""
    found: dict[str, Any] = {
        "metadata": {"name": name, "labels": dict.fromkeys(labels.split(), "true"), **metadata},
        "rules": None if rules is None else rules_of(*rules.split()),
    }
    if selects is not None:
        found["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}} for label in selects.split()]}
    return found


def names_of(roles: list[dict[str, Any]]) -> dict[str, str]:
    """The resources of the rules that are to be changed, by role."""
    return {name: " ".join(one["resources"][0] for one in rules) for name, rules in composed(roles).items()}


@pytest.mark.parametrize(("roles", "wanted"), [
    ([], {}),
    ([role("a", "x"), role("b", "y", labels="l")], {}),
    ([role("sum", None, selects="l"), role("b", "x", labels="l"), role("a", "y z", labels="l")], {"sum": "y z x"}),
    ([role("sum", "y z x", selects="l"), role("b", "x", labels="l"), role("a", "y z", labels="l")], {}),
    ([role("sum", "x y z", selects="l"), role("b", "x", labels="l"), role("a", "y z", labels="l")], {"sum": "y z x"}),
    ([role("sum", selects="l k"), role("a", "x", labels="k"), role("b", "y", labels="l")], {"sum": "y x"}),
    ([role("sum", selects="l k"), role("a", "x", labels="k l"), role("b", "y", labels="l")], {"sum": "x y"}),
    ([role("sum", selects="l"), role("a", "x y", labels="l"), role("b", "y z x", labels="l")], {"sum": "x y z"}),
    ([role("sum", "old", selects="l"), role("a", "x", labels="l")], {"sum": "x"}),
    ([role("sum", "old", selects="l"), role("a", "x", labels="k")], {"sum": ""}),
    ([role("sum", None, selects="l"), role("a", None, labels="l")], {}),
    ([role("sum", "old", selects="l", labels="l"), role("a", "x", labels="l")], {"sum": "x"}),
    ([role("sum", "old", selects=""), role("a", "x", labels="l")], {"sum": ""}),
], ids=[
    "none", "nothing composed", "order of names", "settled", "other order", "order of selectors", "selected twice", "equal rules",
    "own rules", "nothing selected", "null", "itself", "no selectors",
])  # fmt: skip
def test_rules_of_the_selected(roles, wanted):
    """A role has the rules of those that it selects, in the order of selectors and names, each once, and none of its own."""
    for order in (roles, roles[::-1]):
        assert names_of(order) == wanted


def test_selectors():
    """Selectors are those of labels: an empty one selects every other role, and expressions count."""
    sum_ = role("sum", selects="")
    sum_["aggregationRule"]["clusterRoleSelectors"] = [{}]
    assert names_of([sum_, role("a", "x"), role("b", "y", labels="l")]) == {"sum": "x y"}
    sum_["aggregationRule"]["clusterRoleSelectors"] = [{"matchExpressions": [{"key": "l", "operator": "DoesNotExist"}]}]
    assert names_of([sum_, role("a", "x"), role("b", "y", labels="l")]) == {"sum": "x"}
    del sum_["aggregationRule"]["clusterRoleSelectors"]
    assert names_of([sum_, role("a", "x")]) == {}


def test_rules_are_equal_whatever_the_order_of_fields():
    """Two rules with the same fields are one, in the form in which the first role has it."""
    turned = {"verbs": ["get"], "resources": ["x"], "apiGroups": [""]}
    roles = [role("sum", selects="l"), role("a", "x", labels="l"), {**role("b", labels="l"), "rules": [turned, rule("y")]}]
    assert composed(roles) == {"sum": rules_of("x", "y")}


@pytest.mark.parametrize("names", list(itertools.permutations(["a", "b", "c"])))
def test_composed_roles_are_parts(names):
    """A composed role can be a part of another, whatever their names: all are settled at once."""
    top, middle, low = names
    leaf = role("leaf", "x y", labels="k")
    roles = [role(top, selects="m"), role(middle, selects="l", labels="m"), role(low, selects="k", labels="l"), leaf]
    assert names_of(roles) == {top: "x y", middle: "x y", low: "x y"}


def test_roles_that_select_each_other():
    """They all have the rules of what any of them selects; rules that none of these has do not go round."""
    roles = [
        role("a", "stale", labels="l", selects="l k"), role("b", "older stale", labels="l", selects="l"),
        role("c", "x y", labels="k"), role("d", "z", labels="l"), role("out", selects="l"),
    ]  # fmt: skip
    assert names_of(roles) == {"a": "z x y", "b": "z x y", "out": "z x y"}
    ring = [role("a", labels="a", selects="b"), role("b", "x", labels="b", selects="c"), role("c", "y", labels="c", selects="a")]
    assert names_of(ring) == {"b": "", "c": ""}


def test_a_role_that_is_being_deleted():
    """It stays as it is, and is a part of others as long as it is there."""
    deleted = role("b", "old", labels="k", selects="l", deletionTimestamp="2026-01-01T00:00:00Z")
    assert names_of([deleted, role("a", "x", labels="l"), role("sum", selects="k")]) == {"sum": "old"}


def test_many_roles_that_select_each_other():
    """The work grows with the number of pairs, not with each way through them."""
    roles = [role(f"sum-{number:03}", labels="l", selects="l") for number in range(300)]
    roles += [role(f"part-{number:03}", f"x{number}", labels="l") for number in range(300)]
    found = names_of(roles)
    assert set(found) == {f"sum-{number:03}" for number in range(300)}
    assert set(found.values()) == {" ".join(f"x{number}" for number in range(300))}
    chain = [role(f"c-{1500 - number:04}", labels=f"l{number}", selects=f"l{number - 1}") for number in range(1, 1500)]
    assert set(names_of([*chain, role("leaf", "x", labels="l0")]).values()) == {"x"}


LABELS = st.lists(st.sampled_from("lkm"), max_size=2).map(" ".join)
RULES = st.lists(st.sampled_from("xyz"), max_size=2).map(" ".join)


@given(st.lists(st.tuples(RULES, LABELS, st.none() | LABELS), max_size=6))
def test_composing_settles(described):
    """Roles have exactly the rules of the roles that they reach; once these are written nothing is left to do, in any order of the list."""
    roles = [role(f"r{number}", rules, labels=labels, selects=selects) for number, (rules, labels, selects) in enumerate(described)]
    found = composed(copy.deepcopy(roles))
    assert composed(roles[::-1]) == found
    settled = [{**one, "rules": found.get(one["metadata"]["name"], one["rules"])} for one in roles]
    assert composed(settled) == {}
    for number, one in enumerate(settled):
        if "aggregationRule" in one:
            assert {rule["resources"][0] for rule in one["rules"]} == reached(described, number)


def reached(described: list[tuple[str, str, str | None]], start: int) -> set[str]:
    """The words of the rules of plain roles that a composed role selects, directly or through others."""
    found: set[str] = set()
    seen, waiting = {start}, [start]
    while waiting:
        selects = described[waiting.pop()][2] or ""
        for number, (rules, labels, selects_too) in enumerate(described):
            if number not in seen and set(selects.split()) & set(labels.split()):
                seen.add(number)
                if selects_too is None:
                    found |= set(rules.split())
                else:
                    waiting.append(number)
    return found


LABELLED, PLAIN = b'{"metadata":{"labels":{"a":"b"}}}', b'{"metadata":{"name":"x"}}'


@pytest.mark.parametrize(("value", "previous", "concerned"), [
    (PLAIN, PLAIN, False), (LABELLED, PLAIN, True), (PLAIN, LABELLED, True), (PLAIN, None, True), (None, PLAIN, True),
    (b'{"aggregationRule":{},"metadata":{}}', PLAIN, True), (None, None, True),
])  # fmt: skip
@pytest.mark.anyio
async def test_changes_that_change_no_composed_role(registry: Registry, value: bytes, previous: bytes, concerned: bool) -> None:  # noqa: FBT001
    """A role without labels, before and after, does not queue its cluster; a state that is not known does."""
    change = ObjectChange(TEAM, CLUSTER_ROLES.group_resource, "", "x", value, previous)
    keys = list(ClusterRoleController(registry.client).keys(change))
    assert keys == ([Key(TEAM, "", "")] if concerned else [])


def cluster_role(name: str, *names: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name, "labels": labels or {}}}
    return {**head, "rules": rules_of(*names)}


async def rules_in(registry: Registry, name: str, cluster: Name = TEAM) -> list[Any]:
    return (await registry.client.get(cluster, CLUSTER_ROLES, "", name))["rules"] or []


async def until_rules(registry: Registry, name: str, *names: str) -> None:
    """Wait until a role has rules."""

    async def has() -> bool:
        return await rules_in(registry, name) == rules_of(*names)

    await registry.until(has)


@pytest.mark.anyio
async def test_own_roles_become_part_of_inherited_ones(registry: Registry) -> None:
    """A role with a label of the policy is a part of view, edit and admin in its cluster, for as long as it has the label."""
    client = registry.client
    before = {name: await rules_in(registry, name) for name in ("view", "edit", "admin")}
    widgets = rule("widgets")
    await client.create(TEAM, CLUSTER_ROLES, cluster_role("widgets-view", "widgets", labels=TO_VIEW))

    async def everywhere() -> bool:
        return all([widgets in await rules_in(registry, name) for name in before])

    async def nowhere() -> bool:
        return all([widgets not in await rules_in(registry, name) for name in before])

    await registry.until(everywhere)
    assert {name: await rules_in(registry, name, OTHER) for name in before} == before
    found = await client.get(TEAM, CLUSTER_ROLES, "", "view")
    assert found["aggregationRule"]["clusterRoleSelectors"] == [{"matchLabels": TO_VIEW}]
    assert {one["manager"] for one in found["metadata"]["managedFields"]} >= {"clusterrole-aggregation-controller"}
    changed = await client.get(TEAM, CLUSTER_ROLES, "", "widgets-view")
    changed["metadata"]["labels"] = {}
    await client.update(TEAM, CLUSTER_ROLES, changed)
    await registry.until(nowhere)
    assert {name: await rules_in(registry, name) for name in before} == before
    changed = await client.get(TEAM, CLUSTER_ROLES, "", "widgets-view")
    changed["metadata"]["labels"] = TO_VIEW
    await client.update(TEAM, CLUSTER_ROLES, changed)
    await registry.until(everywhere)
    await client.delete(TEAM, CLUSTER_ROLES, "", "widgets-view")
    await registry.until(nowhere)


@pytest.mark.anyio
async def test_own_composed_roles(registry: Registry) -> None:
    """Roles of a cluster's own are composed, through others too, and follow their parts; rules that were written by hand go."""
    client = registry.client
    for name, labels, selects, rules in (("sum", "", "m", "old"), ("middle", "m", "l", ""), ("b", "l", None, "y"), ("a", "l", None, "x")):
        made = cluster_role(name, *rules.split(), labels=dict.fromkeys(labels.split(), "true"))
        if selects is not None:
            made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {selects: "true"}}]}
        await client.create(TEAM, CLUSTER_ROLES, made)
    await until_rules(registry, "sum", "x", "y")
    await until_rules(registry, "middle", "x", "y")
    changed = await client.get(TEAM, CLUSTER_ROLES, "", "a")
    changed["rules"] = rules_of("z")
    await client.update(TEAM, CLUSTER_ROLES, changed)
    await until_rules(registry, "sum", "z", "y")
    await client.delete(TEAM, CLUSTER_ROLES, "", "a")
    await client.delete(TEAM, CLUSTER_ROLES, "", "b")
    await until_rules(registry, "sum")
    changed = await client.get(TEAM, CLUSTER_ROLES, "", "sum")
    changed["rules"] = rules_of("by-hand")
    await client.update(TEAM, CLUSTER_ROLES, changed)
    await until_rules(registry, "sum")


@pytest.mark.anyio
async def test_a_composed_role_that_selects_nothing_writes_nothing(registry: Registry) -> None:
    """A settled cluster is left alone: another round of the controller changes no object."""
    made = {**cluster_role("sum"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"none": "true"}}]}}
    await registry.client.create(TEAM, CLUSTER_ROLES, made)
    controller = ClusterRoleController(registry.client)
    await controller.reconcile(Key(TEAM, "", ""))
    revision = await registry.storage.revision()
    assert await controller.reconcile(Key(TEAM, "", "")) == 0
    assert await registry.storage.revision() == revision
    assert [key.rpartition("/")[2] for key in await registry.keys("team-a") if "/clusterroles/" in key] == ["sum"]
