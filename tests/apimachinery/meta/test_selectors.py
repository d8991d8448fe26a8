"""Label selectors."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta import selectors
from kcp_py.apimachinery.meta.selectors import label_selector_of, parse_label_selector

LABELS = {"a": "b", "n": "5", "e": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True), ("a=b", True), ("a==b", True), ("a=c", False), ("a!=b", False), ("a!=c", True), ("z!=c", True), ("z=c", False),
        ("a", True), ("z", False), ("!a", False), ("!z", True), ("a in (b,c)", True), ("a in (c)", False), ("z in (c)", False),
        ("a notin (b)", False), ("a notin (c)", True), ("z notin (c)", True), ("e=", True), ("e in ()", True), ("z in ()", False),
        ("n>4", True), ("n>5", False), ("n<6", True), ("a>1", False), ("z>1", False), ("n>4,n<6", True), ("n>4,n<5", False),
        ("a=b,a=c", False), ("a in (b,c),a in (b,d)", True), ("a in (c,d),a in (b,d)", False), ("a!=x,a!=y,a!=b", False),
        ("a = b , n", True), ("\ta in\n( b )", True), ("in=x", False), ("notin", False), ("a in (in,notin,b)", True),
    ],
)  # fmt: skip
def test_matching(text, matches):
    """The meaning of every operator, alone and together."""
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("b,a", "a,b"), ("x in (c,a,b,a)", "x in (a,b,c)"), ("a==b", "a==b"), ("!a", "!a"), ("a notin ()", "a notin ()"),
        ("a in (,)", "a in ()"), ("a in (,b)", "a in (,b)"), ("a in (b,,c)", "a in (,b,c)"), ("a>1,a<3", "a>1,a<3"), ("a=", "a="),
    ],
)  # fmt: skip
def test_text_form(text, shown):
    """Requirements are sorted by key, values within each."""
    assert str(parse_label_selector(text)) == shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a/b/c", 'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist'),
        ("a=-", 'unable to parse requirement: values[0][a]: Invalid value: "-": a valid label must be'),
        ("a=b\0c", "unable to parse requirement: found NUL"),
    ],
)
def test_errors_are_upstreams(text, problem):
    """Each way not to be a selector has upstream's text."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_label_selector(text)
    assert str(caught.value).startswith(problem)


def test_exact_match_for_indexes():
    """An index is asked only for a single required value."""
    selector = parse_label_selector("a=b,c in (d),e in (f,g),h!=i,j")
    assert [selector.requires_exact_match(key) for key in "acehj"] == ["b", "d", None, None, None]


def test_everything_and_nothing():
    """The empty selector selects everything, a null one nothing."""
    assert selectors.EVERYTHING.empty
    assert selectors.EVERYTHING.matches({})
    assert not selectors.NOTHING.empty
    assert not selectors.NOTHING.matches({"a": "b"})
    assert parse_label_selector("").empty
    assert parse_label_selector("a=b") == parse_label_selector("a=b")


def test_selector_objects():
    """matchLabels and matchExpressions are one conjunction."""
    expressions = [{"key": "n", "operator": "In", "values": ["5"]}, {"key": "z", "operator": "DoesNotExist"}]
    selector = label_selector_of({"matchLabels": {"a": "b"}, "matchExpressions": expressions})
    assert selector.matches(LABELS)
    assert str(selector) == "a=b,n in (5),!z"
    assert label_selector_of({}) is selectors.EVERYTHING
    assert label_selector_of(None) is selectors.NOTHING


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ({"key": "a", "operator": "Near"}, '"Near" is not a valid label selector operator'),
        ({"key": "a", "operator": "In"}, "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, 'values: Invalid value: ["b"]: values set must be empty'),
        ({"key": "/", "operator": "Exists"}, 'key: Invalid value: "/"'),
    ],
)  # fmt: skip
def test_invalid_selector_objects(expression, problem):
    """Expressions are checked as upstream checks them."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        label_selector_of({"matchExpressions": [expression]})
    assert str(caught.value).startswith(problem)


class CountingLabels(dict[str, str]):
    """Labels that count how often they are asked."""

    asked = 0

    def get(self, key, default=None):
        self.asked += 1
        return super().get(key, default)

    def __contains__(self, key):
        self.asked += 1
        return super().__contains__(key)


@pytest.mark.parametrize("term", ["!k{}", "k{}!=v", "k{}=v", "k{}", "k{} in (v,w)", "k{}>1"])
def test_matching_costs_no_more_than_the_labels(term):
    """Ten thousand requirements do not make each object ten thousand times as expensive."""
    selector = parse_label_selector(",".join(term.format(number) for number in range(10_000)))
    labels = CountingLabels(LABELS)
    selector.matches(labels)
    assert labels.asked <= len(labels) + 1


@given(st.text(alphabet="ab=!(),<> in\tnot5-", max_size=40) | st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text):
    """The parser raises ValueError alone, and what it accepts means the same after being shown."""
    with contextlib.suppress(ValueError):
        selector = parse_label_selector(text)
        again = parse_label_selector(str(selector))
        assert str(again) == str(selector)
        for labels in ({}, LABELS, {"a": "a", "b": "5"}):
            assert again.matches(labels) == selector.matches(labels)


def reference(requirements, labels):
    """Upstream's semantics, one requirement after the other."""
    for key, operator, values in requirements:
        value = labels.get(key)
        ok = {
            "in": value in values,
            "=": value in values,
            "notin": value not in values,
            "!=": value not in values,
            "exists": key in labels,
            "!": key not in labels,
        }[operator]
        if not ok:
            return False
    return True


KEYS = st.sampled_from("abc")
VALUES = st.sampled_from(["", "x", "y"])


@given(
    st.lists(
        st.builds(lambda key, op, value: f"{key}{op}{value}", KEYS, st.sampled_from(["=", "==", "!="]), VALUES)
        | KEYS
        | KEYS.map("!{}".format)
        | st.builds(lambda key, op, vals: f"{key} {op} ({','.join(vals)})", KEYS, st.sampled_from(["in", "notin"]), st.lists(VALUES)),
        max_size=6,
    ),
    st.dictionaries(KEYS, VALUES),
)
def test_compiled_matching_equals_one_by_one(terms, labels):
    """The compiled form selects what the requirements select one by one."""
    selector = parse_label_selector(",".join(terms))
    plain = [(key, "=" if op == "==" else op, values) for key, op, values in selector.requirements]
    assert selector.matches(labels) == reference(plain, labels)
