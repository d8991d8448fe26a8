"""Tables as kubectl prints them, and texts of strangers.

Names and annotations come from the users of logical clusters. What they contain must not control the terminal of an operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

GAP: Final = 3
"""Spaces between columns, as kubectl has them."""


def printable(text: str) -> str:
    """A text in one line, without characters that control a terminal or turn the direction of writing: these are printed as escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def table(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> Iterator[str]:
    """The lines of a table whose columns are as wide as their longest cell.

    Args:
        rows: of equal length, the heading first.
        widths: of an earlier part of the same table; at least as wide columns are made, and the list is updated.
    """
    widths = [0] * len(rows[0]) if widths is None else widths
    rows = [[printable(cell) for cell in row] for row in rows]
    for row in rows:
        widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
    for row in rows:
        yield "".join(cell.ljust(width + GAP) for cell, width in zip(row, widths, strict=True)).rstrip()
