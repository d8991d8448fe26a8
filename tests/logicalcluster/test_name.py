"""Names of logical clusters, paths and the wildcard."""

from __future__ import annotations

import pytest

from kcp_py.logicalcluster import WILDCARD, InvalidClusterError, is_system, parse_name, parse_path

NAMES = ["a", "0", "team-a", "x" * 63, "system:admin", "system:bound-crds"]
PATHS = ["root:a", "root:org:team", "a:b"]
INVALID = ["", "A", "-a", "a-", "a_b", "a.b", "x" * 64, "a:", ":a", "a::b", "a/b", "a b", "a\n", "ä", "**", "root:A"]


@pytest.mark.parametrize("text", NAMES)
def test_names(text: str) -> None:
    """One segment, or a path below `system:`, is the name of a logical cluster."""
    assert parse_name(text) == parse_path(text) == text
    assert is_system(text) is text.startswith("system:")


@pytest.mark.parametrize("text", PATHS)
def test_paths_are_no_names(text: str) -> None:
    """A path has to be resolved before it names a cluster."""
    assert parse_path(text) == text
    with pytest.raises(InvalidClusterError):
        parse_name(text)


def test_the_wildcard_is_no_name() -> None:
    """It is one value, which looks as in a path."""
    assert parse_path("*") is WILDCARD
    assert str(WILDCARD) == "*"
    with pytest.raises(InvalidClusterError):
        parse_name("*")


@pytest.mark.parametrize("text", INVALID)
def test_invalid_texts_are_refused_in_words_of_kcp(text: str) -> None:
    """The message quotes the text."""
    for parse in (parse_name, parse_path):
        with pytest.raises(InvalidClusterError) as refused:
            parse(text)
        assert str(refused.value) == f'invalid cluster: "{text}" does not match the regex'
