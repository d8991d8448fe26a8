"""Quoted texts as Go's `strconv.Quote` writes them."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.golang.quoting import go_quote

QUOTED = {
    "plain": ("a b", '"a b"'),
    "empty": ("", '""'),
    "quotation mark": ('a"b', r'"a\"b"'),
    "backslash": ("a\\b", r'"a\\b"'),
    "control characters with a name": ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
    "control characters without one": ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
    "printable beyond ASCII": ("ä世😀", '"ä世😀"'),
    "not printable": ("\u200b\u2028", r'"\u200b\u2028"'),
    "not printable beyond 16 bits": ("\U000e0001", r'"\U000e0001"'),
}


@pytest.mark.parametrize(("text", "quoted"), QUOTED.values(), ids=QUOTED)
def test_texts_look_as_in_go(text: str, quoted: str) -> None:
    """Printable characters stay as they are, others are escaped with as few digits as fit."""
    assert go_quote(text) == quoted


@given(st.text(st.characters(codec="utf-8")))
def test_each_quoted_text_is_a_literal_of_the_text(text: str) -> None:
    """Go's escapes are those of Python, too."""
    assert ast.literal_eval(go_quote(text)) == text
