"""Policy rules: what they allow, what they cover, and how messages print them."""

from __future__ import annotations

import pytest
from hypothesis import given

from kcp_py.authz.rbac.rules import FULL_AUTHORITY, PolicyRule, break_down, describe, parse_rules, rule_allows, uncovered, url_matches
from kcp_py.request.requestinfo import parse_query, parse_request
from tests.authz.rbac.generated import ALL_REQUESTS, resource_request, some_rules, url_request

PODS = PolicyRule(("get", "list"), ("",), ("pods",))


def rule(verbs: str = "", groups: str | None = None, resources: str = "", names: str = "", urls: str = "") -> PolicyRule:
    """A rule of words; `core` is the group without a name."""
    found = [] if groups is None else ["" if group == "core" else group for group in groups.split()]
    return PolicyRule(tuple(verbs.split()), tuple(found), tuple(resources.split()), tuple(names.split()), tuple(urls.split()))


@pytest.mark.parametrize(("json", "parsed"), [
    (None, ()),
    ([], ()),
    ([{}], (PolicyRule(),)),
    ([{"verbs": None, "apiGroups": None, "resources": None, "resourceNames": None, "nonResourceURLs": None}], (PolicyRule(),)),
    (
        [{"verbs": ["get"], "apiGroups": ["g"], "resources": ["r"], "resourceNames": ["n"]}, {"verbs": ["get"], "nonResourceURLs": ["/u"]}],
        (PolicyRule(("get",), ("g",), ("r",), ("n",)), PolicyRule(("get",), non_resource_urls=("/u",))),
    ),
], ids=["null", "empty", "no fields", "null fields", "all fields"])  # fmt: skip
def test_parsing(json, parsed):
    """Fields that are absent or null are empty."""
    assert parse_rules(json) == parsed


@pytest.mark.parametrize(("given_rule", "verb", "group", "resource", "allowed"), [
    (rule("*", "group1", "resource1"), "verb1", "group1", "resource1", True),
    (rule("*", "group1", "resource1"), "verb1", "group2", "resource1", False),
    (rule("*", "group1", "resource1"), "verb2", "group1", "resource2", False),
    (rule("verb1", "*", "resource1"), "verb1", "group2", "resource1", True),
    (rule("verb1", "*", "resource1"), "verb1", "", "resource1", True),
    (rule("verb1", "*", "resource1"), "verb2", "group1", "resource1", False),
    (rule("verb1", "group1", "*"), "verb1", "group1", "resource2", True),
    (rule("verb1", "group1", "*"), "verb1", "group1", "resource2/status", True),
    (rule("verb1", "group1", "*"), "verb1", "group2", "resource2", False),
    (rule("verb1 verb2", "group1 group2", "resource1 resource2"), "verb2", "group2", "resource1", True),
    (rule("verb1 verb2", "group1 group2", "resource1 resource2"), "verb2", "group3", "resource1", False),
    (rule("get", "core", "pods"), "get", "", "pods", True),
    (rule("get", "core", "pods"), "get", "apps", "pods", False),
    (rule("get", "core", "pods"), "GET", "", "pods", False),
    (rule("get", "core", "pods"), "get", "", "Pods", False),
    (rule("get", "core", "pods"), "get", "", "pod", False),
    (rule("get", "core", "pods"), "", "", "pods", False),
    (rule("*", "core", "pods"), "", "", "pods", True),
    (rule("get", None, "pods"), "get", "", "pods", False),
    (rule("get", "core"), "get", "", "pods", False),
    (rule("", "core", "pods"), "get", "", "pods", False),
    (rule("g*", "core", "pods"), "get", "", "pods", False),
    (rule("get", "app*", "pods"), "get", "apps", "pods", False),
    (rule("get", "core", "po*"), "get", "", "pods", False),
    (rule("*", "*", "*"), "*", "*", "*", True),
    (rule("get", "core", "pods"), "*", "", "pods", False),
    (rule("get", "core", "pods"), "get", "*", "pods", False),
    (rule("get", "core", "pods"), "get", "", "*", False),
    (rule("*", urls="*"), "get", "", "pods", False),
])  # fmt: skip
def test_verbs_groups_resources(given_rule, verb, group, resource, allowed):
    """All three have to be named, each by itself or by an asterisk, which stands for nothing within a word."""
    resource, _, subresource = resource.partition("/")
    assert rule_allows(given_rule, resource_request(verb, group, resource, subresource)) is allowed


@pytest.mark.parametrize(("resources", "resource", "subresource", "allowed"), [
    ("pods", "pods", "status", False),
    ("pods/status", "pods", "status", True),
    ("pods/status", "pods", "", False),
    ("pods/status", "pods/status", "", True),
    ("*", "pods", "status", True),
    ("*/scale", "deployments", "scale", True),
    ("*/scale", "pods", "", False),
    ("*/scale", "scale", "", False),
    ("*/scale", "deployments", "status", False),
    ("*/scale", "deployments", "ale", False),
    ("*/scale", "deployments", "autoscale", False),
    ("*/", "pods", "", False),
    ("*/*", "pods", "status", False),
    ("*/*", "pods", "*", True),
    ("pods/*", "pods", "status", False),
    ("pods/*", "pods", "*", True),
    ("pods/", "pods", "", False),
    ("deployments */scale pods/log", "pods", "log", True),
])  # fmt: skip
def test_subresources(resources, resource, subresource, allowed):
    """A rule for a resource does not match its subresources; `*/NAME` is for that subresource of every resource."""
    assert rule_allows(rule("get", "*", resources), resource_request("get", "apps", resource, subresource)) is allowed


@pytest.mark.parametrize(("method", "url", "allowed"), [
    ("GET", "/api/v1/namespaces/n/pods/a", True),
    ("GET", "/api/v1/namespaces/n/pods/b", True),
    ("GET", "/api/v1/namespaces/n/pods/c", False),
    ("GET", "/api/v1/namespaces/n/pods", False),
    ("GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da", True),
    ("GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da&watch=1", True),
    ("GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dc", False),
    ("GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name!%3Da", False),
    ("GET", "/api/v1/namespaces/n/pods?fieldSelector=spec.nodeName%3Da", False),
    ("POST", "/api/v1/namespaces/n/pods", False),
    ("DELETE", "/api/v1/namespaces/n/pods", False),
    ("DELETE", "/api/v1/namespaces/n/pods/a", True),
    ("GET", "/api/v1/namespaces/n/pods/a/log", False),
    ("GET", "/a", False),
])  # fmt: skip
def test_names(method, url, allowed):
    """A rule with names is for requests that name one of them, lists by a field selector; never for creation or whole collections."""
    path, _, query = url.partition("?")
    info = parse_request(method, path, parse_query(query.encode()))
    assert rule_allows(rule("*", "*", "pods", "a b", "/a2"), info) is allowed


def test_an_asterisk_is_a_name():
    """In `resourceNames` an asterisk is the name of an object and stands for nothing else; so does the empty name."""
    assert not rule_allows(rule("*", "*", "*", "*"), resource_request("get", "", "pods", name="a"))
    assert rule_allows(rule("*", "*", "*", "*"), resource_request("get", "", "pods", name="*"))
    unnamed = PolicyRule(("*",), ("*",), ("*",), ("",))
    assert rule_allows(unnamed, resource_request("list", "", "pods"))
    assert not rule_allows(unnamed, resource_request("get", "", "pods", name="a"))


@pytest.mark.parametrize(("pattern", "path", "matches"), [
    ("*", "", True),
    ("*", "/", True),
    ("*", "/api", True),
    ("/*", "", False),
    ("/*", "/", True),
    ("/*", "/foo", True),
    ("/api", "/api", True),
    ("/api", "/api/", False),
    ("/apis", "/api", False),
    ("/api/v1", "/api", False),
    ("/api/v1", "/api/v1", True),
    ("/api/*", "/api/v1", True),
    ("/api/*", "/api/", True),
    ("/api/*", "/api", False),
    ("/api*", "/apis/apps", True),
    ("/api/**", "/api/v1", True),
    ("/api/*/*", "/api/v1", False),
    ("/api/*/*", "/api/*/v1", True),
    ("/*/v1/*", "/api/v1", False),
    ("*/v1", "/api/v1", False),
    ("", "", True),
    ("", "/", False),
    ("/API", "/api", False),
])  # fmt: skip
def test_urls(pattern, path, matches):
    """A trailing asterisk stands for any rest, the empty one too; one elsewhere stands for itself."""
    assert url_matches(pattern, path) is matches
    assert rule_allows(rule("get")._replace(non_resource_urls=(pattern,)), url_request("get", path)) is matches


def test_verbs_of_urls():
    """A URL is allowed with the verbs of its rule; rules for resources say nothing about URLs."""
    assert not rule_allows(rule("get head", urls="/a"), url_request("post", "/a"))
    assert rule_allows(rule("*", urls="/a"), url_request("post", "/a"))
    assert not rule_allows(rule("*", "*", "*"), url_request("get", "/a"))


@pytest.mark.parametrize(("held", "wanted", "missing"), [
    ([rule("get", "v1", "builds")], [rule("get", "v1", "builds")], []),
    ([rule("get", "v1", "*/scale")], [rule("get", "v1", "foo/scale")], []),
    (
        [rule("delete", "v1", "deployments"), rule("delete", "v1", "builds"), rule("update", "v1", "builds deployments")],
        [rule("delete update", "v1", "builds deployments")],
        [],
    ),
    (
        [rule(verb, group, resource) for verb in ("delete", "update") for group in ("g1", "g2") for resource in ("builds", "deployments")],
        [rule("delete update", "g1 g2", "builds deployments")],
        [],
    ),
    (
        [rule("delete update", "g1 g2", "builds deployments")],
        [rule(verb, group, resource) for verb in ("delete", "update") for group in ("g1", "g2") for resource in ("builds", "deployments")],
        [],
    ),
    (
        [rule("delete update", "v1", "builds deployments"), rule("delete", "v1", "pods")],
        [rule("delete update", "v1", "builds deployments pods")],
        [rule("update", "v1", "pods")],
    ),
    ([rule("get", "*", "roles")], [rule("get", "group1 group2", "roles")], []),
    ([rule("get", "dummy-group", "roles")], [rule("get", "*", "roles")], [rule("get", "*", "roles")]),
    ([rule("get", "*", "roles")], [rule("get", "*", "roles")], []),
    ([rule("*", "v1", "roles")], [rule("watch list", "v1", "roles")], []),
    ([rule("get list watch create update delete exec", "v1", "roles")], [rule("*", "v1", "roles")], [rule("*", "v1", "roles")]),
    ([rule("*", "v1", "roles")], [rule("*", "v1", "roles")], []),
    ([rule("get", "v1", "*")], [rule("get", "v1", "resourcegroup:deployments")], []),
    ([rule("get", "v1", "roles resourcegroup:deployments")], [rule("get", "v1", "*")], [rule("get", "v1", "*")]),
    ([rule("get", "v1", "*")], [rule("get", "v1", "*")], []),
    ([rule("get", "v1", "pods")], [rule("get", "v1", "pods", "foo bar")], []),
    ([rule("get", "v1", "pods", "foo bar")], [rule("get", "v1", "pods")], [rule("get", "v1", "pods")]),
    ([rule("*", urls="/apis")], [rule("*", urls="/apis")], []),
    ([rule("*", urls="*")], [rule("*", urls="/apis /apis/v1 /")], []),
    ([rule("*", urls="/apis/*")], [rule("get", urls="/apis /apis/v1")], [rule("get", urls="/apis")]),
    ([rule("*", urls="/apis/*")], [rule("get", urls="/apis/v1/foo /apis/v1")], []),
    ([rule("get", "v1", "builds", urls="/apis")], [rule("get", "v1", "builds", urls="/apis")], []),
    ([rule("get", "v1", "builds")], [rule("get", "v1", "builds", urls="/apis")], [rule("get", urls="/apis")]),
], ids=[
    "the same", "wildcard of subresources", "several rules", "several groups", "one rule", "one part is missing", "all groups",
    "all groups are more", "all groups, all groups", "all verbs", "all verbs are more", "all verbs, all verbs", "all resources",
    "all resources are more", "all resources, all resources", "all names", "all names are more", "url", "all urls", "prefix of urls",
    "prefix covers", "url and resource", "url is missing",
])  # fmt: skip
def test_covering(held, wanted, missing):
    """Upstream's table: rules together cover others, part by part; all of something is more than any list of it."""
    assert uncovered(held, wanted) == missing


@pytest.mark.parametrize(("held", "wanted", "covered"), [
    (rule("get", "*", "*/scale"), rule("get", "apps", "*/scale"), True),
    (rule("get", "*", "*/scale"), rule("get", "apps", "scale"), False),
    (rule("get", "*", "*/*"), rule("get", "apps", "pods/scale"), False),
    (rule("get", "*", "*/*"), rule("get", "apps", "pods/*"), True),
    (rule("get", "*", "pods/*"), rule("get", "apps", "pods/scale"), False),
    (rule("get", "*", "*/a/b"), rule("get", "apps", "pods/a/b"), True),
    (rule("get", "*", "*/b"), rule("get", "apps", "pods/a/b"), False),
    (rule("get", "core", "pods", "a b"), rule("get", "core", "pods", "b a"), True),
    (rule("get", "core", "pods", "a"), rule("get", "core", "pods", "a b"), False),
    (rule("get", urls="/apis/*"), rule("get", urls="/apis/*"), True),
    (rule("get", urls="/apis/*"), rule("get", urls="/apis/v1/*"), True),
    (rule("get", urls="/apis/v1/*"), rule("get", urls="/apis/*"), False),
    (rule("get", urls="/*"), rule("get", urls="*"), False),
    (rule("*", "*", "*"), rule("get", urls="/"), False),
    (rule("*", urls="*"), rule("get", "core", "pods"), False),
    (rule(), rule("get", "core"), True),
    (rule(), rule("", "core", "pods"), True),
    (rule(), rule("get", "core", "pods"), False),
])  # fmt: skip
def test_covering_of_single_rules(held, wanted, covered):
    """Rules that allow nothing are always covered."""
    assert (uncovered([held], [wanted]) == []) is covered


def test_full_authority():
    """Full authority covers all rules, and only full authority covers itself."""
    everything = [PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), non_resource_urls=("*",))]
    assert uncovered(FULL_AUTHORITY, everything) == []
    assert uncovered([PODS], FULL_AUTHORITY) == list(FULL_AUTHORITY)
    assert uncovered(FULL_AUTHORITY[:1], FULL_AUTHORITY) == [FULL_AUTHORITY[1]]


def test_parts():
    """A rule is broken down by group, resource, verb and name, then by URL and verb."""
    given_rule = rule("get list", "core apps", "pods", "a b", "/u /v")
    assert list(break_down(given_rule)) == [
        *(rule(verb, group, "pods", name) for group in ("core", "apps") for verb in ("get", "list") for name in ("a", "b")),
        *(rule(verb, urls=url) for url in ("/u", "/v") for verb in ("get", "list")),
    ]


WORDS = tuple(map(str, range(10_000)))


@pytest.mark.parametrize(("held", "covered"), [
    (PolicyRule(("*",), ("*",), ("*",)), True),
    (PolicyRule((*WORDS, "more"), (*WORDS, "more"), (*WORDS, "more")), True),
    (PolicyRule(WORDS, WORDS, WORDS, WORDS), True),
    (PolicyRule(WORDS, WORDS, WORDS, WORDS[1:]), False),
    (PolicyRule(WORDS, WORDS, WORDS[1:]), False),
    (PolicyRule(WORDS, WORDS[1:], WORDS), False),
    (PolicyRule(WORDS[1:], WORDS, WORDS), False),
], ids=["all", "more", "the same", "a name is missing", "a resource is missing", "a group is missing", "a verb is missing"])  # fmt: skip
def test_covering_of_very_large_rules(held, covered):
    """A rule with more parts than can be counted is covered by one rule that contains it, and refused as a whole without one."""
    large = PolicyRule(WORDS, WORDS, WORDS, WORDS)
    assert uncovered([PODS, held], [PODS, large]) == ([] if covered else [large])


def test_covering_beyond_the_bound():
    """Rules behind one beyond the bound are not compared, and are refused with it; rules before it are compared."""
    urls = PolicyRule(WORDS, non_resource_urls=WORDS)
    assert uncovered(FULL_AUTHORITY, [PODS, urls, PODS]) == [urls, PODS]
    many = [PolicyRule((word,), ("",), ("pods",)) for word in WORDS]
    assert uncovered([PODS, PolicyRule(WORDS, ("",), ("pods",))], many) == []


@pytest.mark.parametrize(("given_rule", "text"), [
    (PolicyRule(), "{}"),
    (rule("get"), '{Verbs:["get"]}'),
    (
        rule("get list", "core apps", "pods", "a b"),
        '{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a" "b"], Verbs:["get" "list"]}',
    ),
    (rule("get", urls="/a /b"), '{NonResourceURLs:["/a" "/b"], Verbs:["get"]}'),
    (rule("get", "g", "r", "n", "/u"), '{APIGroups:["g"], Resources:["r"], NonResourceURLs:["/u"], ResourceNames:["n"], Verbs:["get"]}'),
    (PolicyRule(('a"\n\x00ä',)), '{Verbs:["a\\"\\n\\x00ä"]}'),
])  # fmt: skip
def test_text_of_a_rule(given_rule, text):
    """Empty fields are left out; values are quoted as Go quotes them."""
    assert str(given_rule) == text


@pytest.mark.parametrize(("rules", "lines"), [
    ([], []),
    (
        [
            rule("get", "core", "builds"), rule("list", "core", "builds"), rule("update patch", "core", "builds"),
            rule("create", "extensions", "daemonsets"), rule("delete", "extensions", "daemonsets"),
            PolicyRule(("patch",), ("extensions",), ("daemonsets",), ("",)),
            rule("get", "extensions", "daemonsets", "foo"), rule("list", "extensions", "daemonsets", "foo"),
            rule("educate", "core", "dolphins"), rule("", "core", "pirates"), rule("", "core", "pods"), rule("create", "core", "pods"),
        ],
        [
            '{APIGroups:[""], Resources:["builds"], Verbs:["get" "list" "update" "patch"]}',
            '{APIGroups:[""], Resources:["dolphins"], Verbs:["educate"]}',
            '{APIGroups:[""], Resources:["pirates"]}',
            '{APIGroups:[""], Resources:["pods"], Verbs:["create"]}',
            '{APIGroups:["extensions"], Resources:["daemonsets"], ResourceNames:[""], Verbs:["patch"]}',
            '{APIGroups:["extensions"], Resources:["daemonsets"], ResourceNames:["foo"], Verbs:["get" "list"]}',
            '{APIGroups:["extensions"], Resources:["daemonsets"], Verbs:["create" "delete"]}',
        ],
    ),
    (
        [rule("get", "core g", "builds"), rule("list", "core g", "builds")],
        ['{APIGroups:["" "g"], Resources:["builds"], Verbs:["get"]}', '{APIGroups:["" "g"], Resources:["builds"], Verbs:["list"]}'],
    ),
    (
        [rule("get", "core", "a b"), rule("list", "core", "a b")],
        ['{APIGroups:[""], Resources:["a" "b"], Verbs:["get"]}', '{APIGroups:[""], Resources:["a" "b"], Verbs:["list"]}'],
    ),
    (
        [rule("get", "core", "a", "x y"), rule("list", "core", "a", "x y")],
        [
            '{APIGroups:[""], Resources:["a"], ResourceNames:["x" "y"], Verbs:["get"]}',
            '{APIGroups:[""], Resources:["a"], ResourceNames:["x" "y"], Verbs:["list"]}',
        ],
    ),
    (
        [rule("get", urls="/b"), rule("get", urls="/a"), rule("put", urls="/a"), rule("get", urls="/b")],
        ['{NonResourceURLs:["/a"], Verbs:["get"]}', '{NonResourceURLs:["/a"], Verbs:["put"]}', '{NonResourceURLs:["/b"], Verbs:["get"]}'],
    ),
], ids=["none", "simple", "groups", "resources", "names", "urls"])  # fmt: skip
def test_lines_of_a_message(rules, lines):
    """Rules for one resource that differ in their verbs are one line; others stay as they are; lines are sorted and each is there once."""
    assert describe(rules) == lines


@given(some_rules(), some_rules())
def test_what_is_covered_is_allowed(held, wanted):
    """Where rules cover others, each request that these allow is allowed by those."""
    missing = uncovered(held, wanted)
    # A review can name a subresource as a resource, which `*/log` does not allow and is taken to cover, as upstream.
    for info in (one for one in ALL_REQUESTS if "/" not in one.resource):
        if any(rule_allows(one, info) for one in wanted):
            assert any(rule_allows(one, info) for one in (*held, *missing)), info


@given(some_rules())
def test_rules_cover_themselves(rules):
    """Rules cover themselves and each of their parts."""
    assert uncovered(rules, rules) == []
    assert uncovered(rules, [part for one in rules for part in break_down(one)]) == []


@given(some_rules(1))
def test_parts_are_the_rule(rules):
    """The parts of a rule allow together exactly what the rule allows, and name one thing each."""
    parts = [part for one in rules for part in break_down(one)]
    for info in ALL_REQUESTS:
        assert any(rule_allows(one, info) for one in parts) is any(rule_allows(one, info) for one in rules), info
    assert {len(values) for part in parts for values in part} <= {0, 1}
