"""Selections of batteries: their grammar."""

from __future__ import annotations

import pytest

from kcp_py.options.batteries import BATTERIES, ON_REQUEST, parse_batteries, render_batteries, select_batteries


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", set()),
        ("", set()),
        ("*", BATTERIES.keys() - ON_REQUEST),
        ("*,-policies", BATTERIES.keys() - ON_REQUEST - {"policies"}),
        ("-policies,*", BATTERIES.keys() - ON_REQUEST - {"policies"}),
        ("*, flow-control", (BATTERIES.keys() - ON_REQUEST) | {"flow-control"}),
        ("crds,namespaces", {"crds", "namespaces"}),
    ],
)
def test_a_selection_names_what_it_adds_and_removes(text: str, expected: set[str]) -> None:
    """As the selection of controllers; its text can be written and read again."""
    selection = parse_batteries(text)
    assert select_batteries(selection) == expected
    assert parse_batteries(render_batteries(selection)) == selection


def test_the_word_none_is_the_empty_selection() -> None:
    """In settings of a program as on the command line."""
    assert select_batteries(("none",)) == frozenset()


@pytest.mark.parametrize("text", ["crd", "*,-crd", "none,crds"])
def test_an_unknown_name_is_refused(text: str) -> None:
    """With the names that there are."""
    with pytest.raises(ValueError, match=r"unknown batteries: \w+; there are admission-webhooks, "):
        parse_batteries(text)
