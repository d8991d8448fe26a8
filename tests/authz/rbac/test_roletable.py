"""Tables of roles decide as their rules do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcp_py.authz.rbac.roletable import _MOST_ENTRIES, _cached_entries, entries_of, plain_table, table_of
from kcp_py.authz.rbac.rules import PolicyRule, rule_allows
from kcp_py.request.requestinfo import RequestInfo
from tests.authz.rbac.generated import ALL_REQUESTS, resource_request, some_rules, url_request

MANY = tuple(f"word-{number}" for number in range(60))


def allows(rules: tuple[PolicyRule, ...], info: RequestInfo) -> bool:
    return table_of(rules).allows(info, entries_of(info) if info.is_resource else ())


@given(some_rules())
def test_tables_decide_as_rules(rules):
    """A table allows exactly what one of its rules allows."""
    for info in ALL_REQUESTS:
        assert allows(rules, info) is any(rule_allows(rule, info) for rule in rules), info


@given(some_rules(), st.sampled_from(["verbs", "api_groups", "resources", "all"]), st.integers(0, 4))
def test_large_rules_decide_as_rules(rules, field, at):
    """So does one with rules that name too many combinations, before or behind others."""
    fields = [name for name in ("verbs", "api_groups", "resources") if field in {name, "all"}]
    large = [rule._replace(**{name: (*getattr(rule, name), *MANY) for name in fields}) for rule in rules[:2]]
    mixed = (*rules[:at], *large, *rules[at:])
    words = resource_request(MANY[3], MANY[4], MANY[5]), resource_request("get", "", MANY[59]), url_request(MANY[0], "/api")
    for info in (*ALL_REQUESTS, *words):
        assert allows(mixed, info) is any(rule_allows(rule, info) for rule in mixed), info


def test_the_bound_of_entries():
    """Rules beyond the bound are matched one by one, whole, and those that fit have entries, wherever they stand."""
    first = PolicyRule(MANY[:40], ("",), MANY[:50])
    second = PolicyRule(("get", "list", "watch"), ("",), ("pods", "secrets", "services"))
    assert len(first.verbs) * len(first.resources) == _MOST_ENTRIES
    table = table_of((first, second))
    assert (len(table.entries), [rule.verbs for rule in table.large]) == (_MOST_ENTRIES, [frozenset(second.verbs)])
    table = table_of((second, first))
    assert (len(table.entries), [rule.verbs for rule in table.large]) == (9, [frozenset(first.verbs)])
    for rules in ((first, second), (second, first)):
        assert allows(rules, resource_request("get", "", "pods"))
        assert allows(rules, resource_request(MANY[39], "", MANY[49]))
        assert not allows(rules, resource_request("get", "", MANY[0]))


def test_many_small_rules_have_entries():
    """A role of very many rules is not searched from end to end: rules with no more combinations than words have entries in any number."""
    rules = tuple(PolicyRule(("get",), ("",), (f"resource-{number}",)) for number in range(_MOST_ENTRIES * 2))
    table = table_of(rules)
    assert (len(table.entries), table.large) == (len(rules), ())
    assert allows(rules, resource_request("get", "", f"resource-{len(rules) - 1}"))


def test_a_rule_as_large_as_an_object_may_be_is_decided():
    """A rule of a hundred thousand verbs, groups and resources becomes no table of all combinations."""
    words = tuple(map(str, range(100_000)))
    rules = (PolicyRule(words, words, words),)
    assert table_of(rules).entries == {}
    assert allows(rules, resource_request("5", "6", "99999"))
    assert not allows(rules, resource_request("5", "6", "100000"))


def test_names_of_several_rules():
    """Names add up, and a rule without names is for all, before or behind those with names."""
    named = PolicyRule(("get",), ("",), ("pods",), ("a",)), PolicyRule(("get",), ("",), ("pods",), ("b",))
    everything = PolicyRule(("get",), ("",), ("pods",))
    assert [name for name in ("", "a", "b", "c") if allows(named, resource_request("get", "", "pods", name=name))] == ["a", "b"]
    for rules in ((*named, everything), (everything, *named)):
        assert allows(rules, resource_request("get", "", "pods", name="c"))


def test_names_of_a_general_entry_leave_others():
    """Names with `*` narrow nothing that another entry allows, and the other way round."""
    rules = PolicyRule(("*",), ("*",), ("*",), ("a",)), PolicyRule(("get",), ("",), ("pods",), ("b",))
    assert [name for name in ("a", "b", "c") if allows(rules, resource_request("get", "", "pods", name=name))] == ["a", "b"]
    assert [name for name in ("a", "b", "c") if allows(rules, resource_request("list", "", "pods", name=name))] == ["a"]


def test_equal_rules_share_a_table():
    """Roles with the same rules have one table, in whatever cluster they are."""
    rules = [(PolicyRule(("get",), ("",), ("pods",)),) for _ in range(2)]
    assert table_of(rules[0]) is table_of(rules[1])


def test_names_count_as_entries():
    """Rules that name many objects for many resources become no table of all combinations."""
    names = tuple(f"name-{number}" for number in range(1000))
    rules = tuple(PolicyRule(MANY[:10], ("", "apps"), MANY[:40], names) for _ in range(20))
    table = table_of(rules)
    assert (table.size, len(table.large)) == (0, len(rules))
    assert allows(rules, resource_request(MANY[9], "apps", MANY[39], name="name-999"))
    assert not allows(rules, resource_request(MANY[9], "apps", MANY[39], name="name-1000"))


def test_plain_tables_decide_as_rules():
    """A table without entries decides equally."""
    rules = (PolicyRule(("get",), ("",), ("pods",), ("a",)), PolicyRule(("get",), non_resource_urls=("/api",)))
    table = plain_table(rules)
    assert table.size == 0
    for info in (resource_request("get", "", "pods", name="a"), url_request("get", "/api")):
        assert table.allows(info, entries_of(info))
    assert not table.allows(resource_request("get", "", "pods", name="b"), ())


def test_the_words_of_a_cached_request_are_bounded() -> None:
    """The entries of a request with very long words, as access reviews can have them, are right and are not kept."""
    request = resource_request("get", "", "p" * 1_000_000, "", namespace="n", name="a")
    before = _cached_entries.cache_info().misses
    assert ("get", "", request.resource) in entries_of(request)
    assert _cached_entries.cache_info().misses == before
