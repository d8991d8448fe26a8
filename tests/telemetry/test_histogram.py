from __future__ import annotations

import pytest

from kcp_py.telemetry.histogram import Histogram, bound_text, exponential


def test_buckets():
    """A value counts in the first bucket whose bound it does not exceed, and in all after it."""
    histogram = Histogram((1.0, 10.0))
    for value in (1.0, 2.0, 50.0):
        histogram.observe(value)
    assert histogram.buckets() == [("1", 1), ("10", 2), ("+Inf", 3)]
    assert histogram.total == 53.0


@pytest.mark.parametrize(
    ("bound", "text"),
    [(0.005, "0.005"), (1.0, "1"), (1.25, "1.25"), (100000.0, "100000"), (1e6, "1e+06"), (1e-08, "1e-08"), (131072.0, "131072")],
)
def test_bounds_are_written_as_go_does(bound, text):
    """The texts are those of upstream's metrics."""
    assert bound_text(bound) == text


def test_exponential():
    """Each bound is the last one times the factor."""
    assert exponential(1000.0, 10.0, 3) == (1000.0, 10000.0, 100000.0)
