"""The order of values of any type."""

from __future__ import annotations

import math

import pytest

from kcp_py.cel.ordering import COMPARABLE, are_comparable, is_less
from kcp_py.cel.values import Duration, Timestamp, UInt

LESS: list[tuple[object, object, bool]] = [
    (1, 2, True),
    (2, 1, False),
    (1, 1.5, True),
    (UInt(1), 1.5, True),
    (2**63, float(2**63), False),
    (False, True, True),
    (False, 1, False),
    ("a", "b", True),
    ("a", b"b", False),
    (Duration(1), Duration(2), True),
    (Duration(1), Timestamp(2), False),
    (math.nan, 1.0, False),
    (1.0, math.nan, False),
]


@pytest.mark.parametrize(("one", "other", "wanted"), LESS)
def test_is_less(one: object, other: object, wanted: bool) -> None:  # noqa: FBT001
    """Numbers of all kinds have one order; other kinds have theirs; between kinds there is none."""
    assert is_less(one, other) is wanted


def test_comparable() -> None:
    """Eight types have an order; null, lists and maps have none."""
    assert len(COMPARABLE) == 8
    assert are_comparable([1, "a", UInt(1), True, 1.0, b"", Duration(1), Timestamp(1)])
    assert not are_comparable([1, None])
    assert not are_comparable([[]])
    assert not are_comparable([{}])
