"""`Histogram`: counts by upper bound, as plain numbers that are cheap to increase."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    """Observations by bucket. Used by one thread; read from any."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Create an empty histogram with these upper bounds, in rising order. The last bucket has no bound."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Bounds as text and cumulative counts, as a `HistogramMetricFamily` takes them."""
        texts = [*map(bound_text, self._bounds), "+Inf"]
        return list(zip(texts, map(float, accumulate(self._counts.copy())), strict=True))

    @property
    def total(self) -> float:
        """The sum of all values."""
        return self._total


def bound_text(bound: float) -> str:
    """A bound as Go's client library writes it, so that queries by bucket match: `0.05`, `1`, `1e+06`."""
    return f"{bound:.17g}" if bound >= 1e6 and bound % 1 else f"{bound:g}" if bound >= 1e6 else repr(bound).removesuffix(".0")


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds that grow by a factor (Prometheus' `ExponentialBuckets`)."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)
