"""Reports of faulty expressions."""

from __future__ import annotations

from kcp_py.schema.cel.errors import CompileError, Issue


def test_all_issues_are_reported() -> None:
    """One block for each issue, with its line and a caret under the place."""
    error = CompileError("a +\n\tb.c", (Issue("first", 0), Issue("second", 6)))
    assert str(error) == "ERROR: <input>:1:1: first\n | a +\n | ^\nERROR: <input>:2:3: second\n |  b.c\n | ..^"


def test_wide_characters_keep_the_caret_in_place() -> None:
    """Characters that are not ASCII are underlined by wide dots, as cel-go does."""
    assert str(CompileError("'\u00e9' + x", (Issue("bad", 6),))).endswith("\n | .\uff0e....^")
