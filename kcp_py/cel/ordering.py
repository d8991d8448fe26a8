"""The order of values whose types are not known: cel-go's `traits.Comparer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from kcp_py.cel.values import Duration, Timestamp, UInt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMPARABLE", "are_comparable", "is_less"]

COMPARABLE: Final[tuple[Type, ...]] = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""The types that have an order, as cel-go's and Kubernetes' lists libraries declare them."""
_KINDS: Final[dict[type, int]] = {int: 0, UInt: 0, float: 0, bool: 1, Duration: 2, Timestamp: 3, str: 4, bytes: 5}


def are_comparable(values: Sequence[object]) -> bool:
    """Whether each of the values has an order with its like."""
    return all(kind in _KINDS for kind in set(map(type, values)))


def is_less(one: Any, other: Any) -> bool:
    """Whether one comes before the other; values of unrelated kinds, and NaN, come before nothing."""
    return _KINDS[type(one)] == _KINDS[type(other)] and bool(one < other)
