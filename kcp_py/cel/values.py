"""What CEL values are at run time.

Decoded JSON is used as it is: None, bool, int, float, str, list, dict. The rest are the classes below and `bytes`. Lists and dicts are
never changed by an expression. Everything else that a library calls a value (quantity, URL, IP …) is an immutable class of that library.

Python's `True == 1` and `hash(True) == hash(1)` are not CEL's: maps with bool keys hold `BoolKey` instead, and code that compares values of
unknown type goes through `equality.equal`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kcp_py.cel.errors import CostExceededError

if TYPE_CHECKING:
    from kcp_py.cel.types import Type

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "NONE",
    "UINT_MAX",
    "BoolKey",
    "Budget",
    "Duration",
    "Optional",
    "Timestamp",
    "TypeValue",
    "UInt",
]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class UInt(int):
    """An unsigned integer of 64 bits. Arithmetic on it gives plain ints: functions that return one make it again."""

    __slots__ = ()


class BoolKey(enum.Enum):
    """A bool as the key of a map."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time: whole nanoseconds since 1970-01-01T00:00:00Z, from year 1 to year 9999."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds, of 64 bits."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that is there; `NONE` is the one that is not."""

    value: object


class _Absent(Optional):
    """The type of `NONE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        """For tests."""
        return "NONE"


NONE: Final[Optional] = _Absent(None)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(x)` gives."""

    type: Type


class Budget:
    """The cost that may still be spent, shared by whatever is to be limited together (one call, one object).

    Attributes:
        left: units; never below zero.
    """

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        """Start with `limit` units."""
        self.left = limit

    def charge(self, units: int) -> None:
        """Spend.

        Raises:
            CostExceededError: more is asked than is left; nothing is left then.
        """
        left = self.left - units
        if left < 0:
            self.left = 0
            raise CostExceededError
        self.left = left
