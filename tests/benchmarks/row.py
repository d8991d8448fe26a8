"""`Row`: one line of the table of results."""

from __future__ import annotations

from typing import NamedTuple

from tests.benchmarks.load import Result


class Row(NamedTuple):
    """One line of the table."""

    work: str
    ours: str
    bare: str
    ratio: str
    wanted: str
    percentiles: str = ""


def percentiles(result: Result) -> str:
    return f"p50 {result.percentile(0.5):.2f} ms, p99 {result.percentile(0.99):.2f} ms"
