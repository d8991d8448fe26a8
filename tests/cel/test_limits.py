"""Limits of cost, and the messages of estimates beyond them."""

from __future__ import annotations

import pytest

from kcp_py.cel.limits import (
    CRD_ESTIMATE_LIMIT,
    EXPRESSION_ESTIMATE_LIMIT,
    TotalEstimate,
    cardinality,
    cost_message,
    expression_cost,
    largest_list,
    largest_map,
    unbounded_cardinality,
)
from kcp_py.cel.values import UINT_MAX

ADVICE = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"


@pytest.mark.parametrize(
    ("cost", "factor"),
    [
        (10_000_001, "1.000000x"),
        (14_999_999, "1.500000x"),
        (15_000_000, "1.5x"),
        (35_000_000, "3.5x"),
        (1_000_000_000, "100.0x"),
        (1_000_000_001, "more than 100x"),
        (UINT_MAX, "more than 100x"),
    ],
)
def test_messages_name_the_factor(cost: int, factor: str) -> None:
    """The factor has six digits where it is small, one where it is not, and is not named where it is huge."""
    message = cost_message("estimated rule cost", cost, EXPRESSION_ESTIMATE_LIMIT)
    assert message == f"estimated rule cost exceeds budget by factor of {factor} {ADVICE}"


@pytest.mark.parametrize(
    ("outer", "limit", "times"),
    [
        pytest.param(1, 10, 10, id="a limited list"),
        pytest.param(10, 5, 50, id="a limited list in another"),
        pytest.param(10, None, None, id="an unlimited list in a limited one"),
        pytest.param(None, 5, None, id="a limited list in an unlimited one"),
        pytest.param(10, -1, 0, id="a limit below zero"),
        pytest.param(2**63, 4, UINT_MAX, id="beyond 64 bits"),
    ],
)
def test_how_often_a_schema_applies(outer: int | None, limit: int | None, times: int | None) -> None:
    """The limits of all lists and maps around a schema are multiplied; one that is missing makes the product unknown."""
    assert cardinality(outer, limit) == times


def test_what_has_no_limit_is_limited_by_the_request() -> None:
    """An unlimited size is what fits into the largest request."""
    assert (largest_list(1), largest_list(2), largest_map(2)) == (1572863, 1048575, 393215)
    assert unbounded_cardinality(2) == 1048576


def test_expressions_cost_what_they_cost_in_all_places() -> None:
    """An estimate is multiplied by the places that it applies to, by those of a whole request if nothing limits them."""
    assert expression_cost(5, 100, 7) == 500
    assert expression_cost(5, None, 7) == 35
    assert expression_cost(2**40, 2**40, 1) == UINT_MAX
    assert expression_cost(0, None, 7) == 0


def test_the_most_expensive_expressions_are_named() -> None:
    """The four most expensive of those with a share of one percent are kept, in order."""
    total = TotalEstimate()
    for place, cost in (("a", 999_999), ("b", 1_000_000), ("c", 5_000_000), ("d", 2_000_000), ("e", 5_000_000), ("f", 3_000_000)):
        total.add(place, cost)
    assert total.total == 16_999_999 < CRD_ESTIMATE_LIMIT
    assert total.most_expensive == [("c", 5_000_000), ("e", 5_000_000), ("f", 3_000_000), ("d", 2_000_000)]
    total.add("g", UINT_MAX)
    assert total.total == UINT_MAX
