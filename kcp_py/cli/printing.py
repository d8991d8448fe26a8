"""Tables as kubectl prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

GAP: Final = 3
"""Spaces between columns, as kubectl has them."""


def table(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> Iterator[str]:
    """The lines of a table whose columns are as wide as their longest cell.

    Args:
        rows: of equal length, the heading first.
        widths: of an earlier part of the same table; at least as wide columns are made, and the list is updated.
    """
    widths = [0] * len(rows[0]) if widths is None else widths
    for row in rows:
        widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
    for row in rows:
        yield "".join(cell.ljust(width + GAP) for cell, width in zip(row, widths, strict=True)).rstrip()
