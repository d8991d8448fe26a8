"""Ranges of sizes and of costs: arithmetic that stops at the largest number of 64 bits (cel-go `checker/cost.go`)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from kcp_py.cel.values import UINT_MAX

__all__ = ["NOTHING", "ONE", "UNKNOWN", "Estimate", "exactly", "saturated_product"]

_BEYOND: Final = 2.0**64


class Estimate(NamedTuple):
    """At least `min`, at most `max`: units of cost, or elements, characters or bytes. `UINT_MAX` stands for "no bound"."""

    min: int
    max: int

    def plus(self, other: Estimate) -> Estimate:
        """The sum."""
        return Estimate(min(self.min + other.min, UINT_MAX), min(self.max + other.max, UINT_MAX))

    def times(self, other: Estimate) -> Estimate:
        """The product."""
        return Estimate(saturated_product(self.min, other.min), saturated_product(self.max, other.max))

    def scaled(self, factor: float) -> Estimate:
        """The product with a factor, rounded up."""
        return Estimate(_scaled(self.min, factor), _scaled(self.max, factor))

    def joined(self, other: Estimate) -> Estimate:
        """What holds both."""
        return Estimate(min(self.min, other.min), max(self.max, other.max))


def exactly(number: int) -> Estimate:
    """A range of one number."""
    return Estimate(number, number)


def saturated_product(one: int, other: int) -> int:
    """The product, or the largest number of 64 bits."""
    return min(one * other, UINT_MAX)


def _scaled(number: int, factor: float) -> int:
    """The product in doubles, as upstream computes it: huge estimates have the rounding of doubles."""
    if number > 0 and factor > 0 and float(number) > _BEYOND / factor:
        return UINT_MAX
    product = math.ceil(float(number) * factor)
    return UINT_MAX if product >= _BEYOND else product


NOTHING: Final = Estimate(0, 0)
ONE: Final = Estimate(1, 1)
UNKNOWN: Final = Estimate(0, UINT_MAX)
