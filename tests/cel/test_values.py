"""The run-time values that JSON does not have."""

from __future__ import annotations

import pytest

from kcp_py.cel.errors import CostExceededError
from kcp_py.cel.values import NONE, Budget, Optional


def test_a_budget_stops_at_its_limit() -> None:
    """The budget can be spent to the last unit; one more ends the evaluation and leaves nothing."""
    budget = Budget(10)
    budget.charge(4)
    budget.charge(6)
    assert budget.left == 0
    with pytest.raises(CostExceededError, match="operation cancelled: actual cost limit exceeded"):
        budget.charge(1)
    budget = Budget(10)
    with pytest.raises(CostExceededError):
        budget.charge(11)
    assert budget.left == 0


def test_an_optional_null_is_there() -> None:
    """`optional.of(null)` has a value, and differs from none."""
    assert Optional(None) != NONE
    assert Optional(1) == Optional(1)
