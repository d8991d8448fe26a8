"""Limits on the cost of expressions, the messages about expressions that exceed them, and how often a rule can run in one object.

Sources: apiserver `pkg/apis/cel/config.go` and `pkg/cel/limits.go`; apiextensions `pkg/apis/apiextensions/validation/validation.go`
(`getCostErrorMessage`, `getExpressionCost`, `StaticEstimatedCostLimit`), `cel_validation.go` (`CELSchemaContext`, `TotalCost`) and
`pkg/apiserver/schema/cel/model/schemas.go` (largest and smallest sizes in a request).
"""

from __future__ import annotations

from typing import Final

from kcp_py.cel.ranges import saturated_product
from kcp_py.cel.values import UINT_MAX

__all__ = [
    "CALL_LIMIT",
    "CRD_ESTIMATE_LIMIT",
    "EXPRESSION_ESTIMATE_LIMIT",
    "LARGEST_DATE",
    "LARGEST_DATE_TIME",
    "LARGEST_DURATION",
    "LARGEST_REQUEST",
    "LARGEST_STRING",
    "MATCH_CONDITIONS_BUDGET",
    "OBJECT_BUDGET",
    "SMALLEST_SIZES",
    "TotalEstimate",
    "cardinality",
    "cost_message",
    "expression_cost",
    "largest_list",
    "largest_map",
    "unbounded_cardinality",
]

CALL_LIMIT: Final = 1_000_000
"""Units that one evaluation of one expression may cost."""

OBJECT_BUDGET: Final = 10_000_000
"""Units that all evaluations for one object, or for one policy, may cost together."""

MATCH_CONDITIONS_BUDGET: Final = 2_500_000
"""Units that all match conditions of one webhook may cost together."""

EXPRESSION_ESTIMATE_LIMIT: Final = 10_000_000
"""What an expression of a schema may be estimated to cost, in as many places as it applies to."""

CRD_ESTIMATE_LIMIT: Final = 100_000_000
"""What all expressions of a schema may be estimated to cost together."""

LARGEST_REQUEST: Final = 3 * 1024 * 1024
"""Bytes of the largest request: what limits strings, lists and maps that nothing else limits."""

LARGEST_STRING: Final = LARGEST_REQUEST - 2
LARGEST_DURATION: Final = 32
LARGEST_DATE: Final = 12
LARGEST_DATE_TIME: Final = 32
"""Bytes, quotes included, except of `LARGEST_STRING`."""

SMALLEST_SIZES: Final = {
    "boolean": 4,
    "number": 1,
    "integer": 1,
    "string": 2,
    "duration": 3,
    "date": 12,
    "date-time": 21,
    "array": 2,
    "object": 2,
    "int-or-string": 1,
}
"""Bytes that a value of a type or format takes at least; of an object, without its required properties."""

_REPORTED: Final = 4
_SHARE: Final = CRD_ESTIMATE_LIMIT // 100
_MANY: Final = 100.0
_FEW: Final = 1.5


def largest_list(smallest_item: int) -> int:
    """Elements of the longest list, from the bytes that one takes at least."""
    return (LARGEST_REQUEST - 2) // (smallest_item + 1)


def largest_map(smallest_value: int) -> int:
    """Entries of the largest map, from the bytes that a value takes at least: a key, quotes, colon and comma take six more."""
    return (LARGEST_REQUEST - 2) // (smallest_value + 6)


def unbounded_cardinality(smallest: int) -> int:
    """How often a value that takes at least `smallest` bytes fits into a request: used where no schema above it has a limit."""
    return LARGEST_REQUEST // (smallest + 1)


def cardinality(outer: int | None, limit: int | None) -> int | None:
    """How often a schema can apply below another one.

    Args:
        outer: how often the other one can; None: no limit.
        limit: its `maxItems` or `maxProperties` where it has items or additional properties, None where that is missing; 1 of all others.

    Returns:
        None: no limit.
    """
    return None if outer is None or limit is None else saturated_product(outer, max(limit, 0))


def expression_cost(largest: int, times: int | None, unbounded: int) -> int:
    """What an expression costs in all places that it applies to.

    Args:
        largest: `Estimate.max` of one evaluation.
        times: `cardinality` of its schema.
        unbounded: `unbounded_cardinality` of its schema, used without `times`.
    """
    return saturated_product(largest, unbounded if times is None else times)


def cost_message(name: str, cost: int, limit: int) -> str:
    """Why an estimate is refused.

    Args:
        name: the kind of the estimate: `estimated rule cost`, `estimated messageExpression cost`, or
            `x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema`.
        cost: the estimate.
        limit: the highest cost that is allowed.
    """
    factor = cost / limit
    if factor > _MANY:
        shown = "more than 100x"
    elif factor < _FEW:
        shown = f"{factor:f}x"
    else:
        shown = f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
        "arrays, maps, and strings are declared)"
    )


class TotalEstimate:
    """What all expressions of a schema are estimated to cost together.

    Attributes:
        total: the sum, at most `UINT_MAX`.
        most_expensive: (place, cost) of the up to four most expensive expressions that have at least one percent of the limit each, the
            most expensive first; those of equal cost in the order in which they came.
    """

    __slots__ = ("most_expensive", "total")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.total = 0
        self.most_expensive: list[tuple[str, int]] = []

    def add(self, place: str, cost: int) -> None:
        """Count one more expression.

        Args:
            place: where it is, as a field path.
            cost: `expression_cost`.
        """
        self.total = min(self.total + cost, UINT_MAX)
        if cost >= _SHARE:
            self.most_expensive = sorted([*self.most_expensive, (place, cost)], key=lambda entry: -entry[1])[:_REPORTED]
