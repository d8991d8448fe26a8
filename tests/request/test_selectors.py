"""Selectors as access reviews and authorizers have them."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.request.selectors import NO_REQUIREMENTS, RequestSelectors, Requirements, SelectorRequirement, review_selectors


def found(*items: tuple[str, str, tuple[str, ...]], failed: bool = False) -> Requirements:
    return Requirements(tuple(SelectorRequirement(*item) for item in items), failed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", NO_REQUIREMENTS),
        ("a=b", found(("a", "In", ("b",)))),
        ("c!=d,a==b", found(("a", "In", ("b",)), ("c", "NotIn", ("d",)))),
        ("a", found(failed=True)),
        ("a=b,c", found(failed=True)),
    ],
)
def test_field_selectors_of_requests(text: str, expected: Requirements) -> None:
    """A text that cannot be read has no requirements."""
    assert RequestSelectors(field=text).field_requirements() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", NO_REQUIREMENTS),
        ("a=b", found(("a", "In", ("b",)))),
        ("a in (c,b)", found(("a", "In", ("b", "c")))),
        ("a notin (b),c!=d", found(("a", "NotIn", ("b",)), ("c", "NotIn", ("d",)))),
        ("a,!b", found(("a", "Exists", ()), ("b", "DoesNotExist", ()))),
        # The API has no name for comparisons of numbers. Without them the question is broader.
        ("a>1,b", found(("b", "Exists", ()))),
        ("a in (", found(failed=True)),
    ],
)
def test_label_selectors_of_requests(text: str, expected: Requirements) -> None:
    """Each requirement gets the operator of the API, and one that the API does not have is left out."""
    assert RequestSelectors(label=text).label_requirements() == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rawSelector": "a=b"}, found(("a", "In", ("b",)))),
        ({"rawSelector": "a"}, found(failed=True)),
        ({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}, found(("a", "In", ("b",)))),
        ({"requirements": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, found(("a", "NotIn", ("b",)))),
        ({"requirements": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, found(failed=True)),
        ({"requirements": [{"key": "a", "operator": "Exists"}]}, found(failed=True)),
        (
            {"requirements": [{"key": "a", "operator": "Like", "values": ["b"]}, {"key": "c", "operator": "In", "values": ["d"]}]},
            found(("c", "In", ("d",)), failed=True),
        ),
    ],
)
def test_field_selectors_of_reviews(given: dict[str, Any], expected: Requirements) -> None:
    """Field selectors compare with one value; other requirements are left out and reported."""
    selectors = review_selectors({"fieldSelector": given})
    assert selectors is not None
    assert selectors.field_requirements() == expected
    assert selectors.label_requirements() == NO_REQUIREMENTS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rawSelector": "a,!b"}, found(("a", "Exists", ()), ("b", "DoesNotExist", ()))),
        ({"requirements": [{"key": "a", "operator": "In", "values": ["c", "b"]}]}, found(("a", "In", ("c", "b")))),
        ({"requirements": [{"key": "a", "operator": "DoesNotExist"}]}, found(("a", "DoesNotExist", ()))),
        ({"requirements": [{"key": "a", "operator": "In"}]}, found(failed=True)),
        (
            {"requirements": [{"key": "a", "operator": "Gt", "values": ["1"]}, {"key": "b", "operator": "Exists"}]},
            found(("b", "Exists", ()), failed=True),
        ),
    ],
)
def test_label_selectors_of_reviews(given: dict[str, Any], expected: Requirements) -> None:
    """Requirements that label selectors do not have are left out and reported."""
    selectors = review_selectors({"labelSelector": given})
    assert selectors is not None
    assert selectors.label_requirements() == expected


def test_reviews_without_selectors() -> None:
    """They have none to ask about."""
    assert review_selectors({"verb": "list"}) is None
    assert review_selectors({"labelSelector": {}, "fieldSelector": None}) is None
