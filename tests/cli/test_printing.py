"""Tables."""

from __future__ import annotations

from kcp_py.cli.printing import printable, table


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    """Cells are aligned with three spaces between, without blanks at the end of a line."""
    assert list(table([["NAME", "AGE"], ["a-long-name", "1s"], ["b", ""]])) == ["NAME          AGE", "a-long-name   1s", "b"]


def test_a_table_in_parts() -> None:
    """A later part keeps the widths of an earlier one, and widens what does not fit."""
    widths = [0, 0]
    assert list(table([["NAME", "AGE"], ["abcdef", "1s"]], widths)) == ["NAME     AGE", "abcdef   1s"]
    assert list(table([["a", "1s"]], widths)) == ["a        1s"]
    assert list(table([["abcdefgh", "1s"]], widths)) == ["abcdefgh   1s"]


def test_texts_of_strangers_do_not_control_the_terminal() -> None:
    """Escape sequences, line ends and changes of the direction of writing are shown, and other languages are left alone."""
    hostile = {
        "\x1b]0;title\x07": r"\x1b]0;title\x07",
        "one\nsystem:masters": r"one\nsystem:masters",
        "\x9b2J\u202egpj.exe\u2028": r"\x9b2J\u202egpj.exe\u2028",
        "Zoë in 東京": "Zoë in 東京",
    }
    assert {text: printable(text) for text in hostile} == hostile
    assert list(table([["A", "B"], ["\x1b[2J", "x"]])) == ["A         B", r"\x1b[2J   x"]
