"""Names, label keys and values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta import names

RULES = [
    names.dns_subdomain_problems,
    names.dns_label_problems,
    names.dns_1035_label_problems,
    names.path_segment_problems,
    names.qualified_name_problems,
    names.label_value_problems,
    names.config_key_problems,
]


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (names.dns_subdomain_problems, "a"),
        (names.dns_subdomain_problems, "a.b-c.1"),
        (names.dns_subdomain_problems, "a" * 253),
        (names.dns_label_problems, "0-a"),
        (names.dns_label_problems, "a" * 63),
        (names.dns_1035_label_problems, "a-0"),
        (names.path_segment_problems, "system:admin"),
        (names.path_segment_problems, "..."),
        (names.qualified_name_problems, "example.com/Uppercase_Is_OK_123"),
        (names.qualified_name_problems, "a" * 253 + "/" + "b" * 63),
        (names.label_value_problems, ""),
        (names.label_value_problems, "A_1.b-C"),
        (names.config_key_problems, ".dockerconfigjson"),
    ],
)
def test_valid_names_have_no_problems(rule, name):
    """What upstream accepts is accepted."""
    assert rule(name) == []


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (names.dns_subdomain_problems, "A"),
        (names.dns_subdomain_problems, "a..b"),
        (names.dns_subdomain_problems, "a-"),
        (names.dns_subdomain_problems, "a\n"),
        (names.dns_subdomain_problems, ""),
        (names.dns_subdomain_problems, "a" * 254),
        (names.dns_label_problems, "a" * 64),
        (names.dns_1035_label_problems, "0a"),
        (names.path_segment_problems, ".."),
        (names.path_segment_problems, "a/b"),
        (names.path_segment_problems, "a%b"),
        (names.qualified_name_problems, "a/b/c"),
        (names.qualified_name_problems, "/a"),
        (names.qualified_name_problems, "a/"),
        (names.qualified_name_problems, "Example.com/abc"),
        (names.qualified_name_problems, "é"),
        (names.label_value_problems, "a b"),
        (names.label_value_problems, "a" * 64),
        (names.label_value_problems, "a\n"),
        (names.config_key_problems, "..a"),
    ],
)
def test_invalid_names_have_problems(rule, name):
    """What upstream refuses is refused, a trailing newline too."""
    assert rule(name)


def test_subdomain_text_is_upstreams():
    """Clients match on the text."""
    assert names.dns_subdomain_problems("A")[0] == (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
        "an alphanumeric character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_label_with_dots_is_told_so():
    """A subdomain where a label must stand gets the short text."""
    assert names.dns_label_problems("a.b") == ["must not contain dots"]


def test_length_and_form_are_both_told():
    """Length is counted in bytes of UTF-8."""
    assert names.dns_label_problems("é" * 32)[0] == "must be no more than 63 characters"
    assert len(names.dns_label_problems("é" * 32)) == 2


def test_examples_are_joined_as_upstream_joins_them():
    """Upstream's comma before `or` is kept."""
    assert "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used" in names.qualified_name_problems("-")[0]


def test_generate_name_may_end_in_a_dash():
    """A prefix is checked with its last dash masked."""
    assert names.prefix_problems(names.dns_subdomain_problems, "web-") == []
    assert names.prefix_problems(names.path_segment_problems, "..") == []
    assert names.prefix_problems(names.dns_subdomain_problems, "Web-")


@given(st.text(max_size=300))
def test_rules_survive_any_text(text):
    """No text makes a rule raise."""
    for rule in RULES:
        assert isinstance(rule(text), list)


@given(st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,5}){0,5}\Z"))
def test_subdomains_are_also_label_key_prefixes(name):
    """The prefix of a label key follows the rule of subdomains."""
    assert names.qualified_name_problems(f"{name}/x") == []
