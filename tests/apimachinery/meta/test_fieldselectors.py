"""Field selectors."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta.fieldselectors import escape_value, parse_field_selector, unescape_value

FIELDS = {"metadata.name": "a", "status.phase": "Done"}


def get(field):
    return FIELDS.get(field, "")


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True), ("metadata.name=a", True), ("metadata.name==a", True), ("metadata.name!=a", False), ("metadata.name=b", False),
        ("metadata.name=a,status.phase!=Running", True), ("metadata.name=a,metadata.name=b", False), ("other=", True), ("other!=", False),
        (",,metadata.name=a,", True),
    ],
)  # fmt: skip
def test_matching(text, matches):
    """Equality and inequality, joined by and; empty terms do not count."""
    assert parse_field_selector(text).matches(get) is matches


def test_escapes():
    """Commas, equal signs and backslashes stand in values with a backslash."""
    selector = parse_field_selector(r"a=b\,c\=d\\,e!=f")
    assert [tuple(requirement) for requirement in selector.requirements] == [("a", "=", r"b,c=d" + "\\"), ("e", "!=", "f")]
    assert str(selector) == r"a=b\,c\=d\\,e!=f"
    assert selector.requires_exact_match("a") == "b,c=d\\"
    assert selector.requires_exact_match("e") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_errors_are_upstreams(text, problem):
    """Each way not to be a selector has upstream's text."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_field_selector(text)
    assert str(caught.value) == problem


@given(st.text(max_size=30))
def test_escaping_is_undone(value):
    """Any text can be the value of a term."""
    assert unescape_value(escape_value(value)) == value
    assert parse_field_selector(f"a={escape_value(value)}").matches(lambda _: value)


@given(st.text(alphabet="ab=!,\\", max_size=30) | st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text):
    """The parser raises ValueError alone, and what it accepts is shown so that it means the same."""
    with contextlib.suppress(ValueError):
        selector = parse_field_selector(text)
        assert parse_field_selector(str(selector)).requirements == sorted(selector.requirements, key=str)
