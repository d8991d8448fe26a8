"""Reports of faulty expressions."""

from __future__ import annotations

from kcp_py.cel.errors import CompileError, Issue, Issues


def test_all_issues_are_reported() -> None:
    """One block for each issue, with its line and a caret under the place."""
    error = CompileError("a +\n\tb.c", (Issue("first", 0), Issue("second", 6)))
    assert str(error) == "ERROR: <input>:1:1: first\n | a +\n | ^\nERROR: <input>:2:3: second\n |  b.c\n | ..^"


def test_wide_characters_keep_the_caret_in_place() -> None:
    """Characters that are not ASCII are underlined by wide dots, as cel-go does."""
    assert str(CompileError("'\u00e9' + x", (Issue("bad", 6),))).endswith("\n | .\uff0e....^")


def test_a_hundred_issues_are_reported() -> None:
    """Errors beyond a hundred are counted, and their messages are not written."""
    issues = Issues()
    assert not issues
    for position in range(250, 0, -1):
        issues.add(str(position) if position > 150 else lambda: str(1 // 0), position)
    assert issues
    error = issues.error("x\n" * 200)
    assert [issue.position for issue in error.issues] == list(range(151, 251))
    assert str(error).startswith("ERROR: <input>:76:2: 151\n | x\n | .^\n")
    assert str(error).endswith("\n150 more errors were truncated")


def test_long_lines_are_not_shown() -> None:
    """A line beyond 16 KiB is named, not repeated for each issue in it."""
    assert str(CompileError("x" * 16_384, (Issue("bad", 3),))).count("\n") == 2
    assert str(CompileError("x" * 16_385, (Issue("bad", 3),))) == "ERROR: <input>:1:4: bad"
    assert str(CompileError("\u00e9" * 8_193 + "\nx", (Issue("bad", 3), Issue("worse", 8_194)))) == (
        "ERROR: <input>:1:4: bad\nERROR: <input>:2:1: worse\n | x\n | ^"
    )
