"""Tables."""

from __future__ import annotations

from kcp_py.cli.printing import table


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    """Cells are aligned with three spaces between, without blanks at the end of a line."""
    assert list(table([["NAME", "AGE"], ["a-long-name", "1s"], ["b", ""]])) == ["NAME          AGE", "a-long-name   1s", "b"]


def test_a_table_in_parts() -> None:
    """A later part keeps the widths of an earlier one, and widens what does not fit."""
    widths = [0, 0]
    assert list(table([["NAME", "AGE"], ["abcdef", "1s"]], widths)) == ["NAME     AGE", "abcdef   1s"]
    assert list(table([["a", "1s"]], widths)) == ["a        1s"]
    assert list(table([["abcdefgh", "1s"]], widths)) == ["abcdefgh   1s"]
