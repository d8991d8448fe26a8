"""The two ways in which an expression fails: it cannot be compiled, or it has no value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CompileError", "CostExceededError", "EvaluationError", "Issue", "too_deep"]

_WIDE_DOT: Final = "\uff0e"
_WIDE_CARET: Final = "\uff3e"


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with an expression's text.

    Attributes:
        message: cel-go's words, `undefined field 'x'`.
        position: offset in characters from the start of the text.
    """

    message: str
    position: int


class CompileError(Exception):
    """The text is no expression, or has no type. `str()` is what cel-go prints: one block with the line and a caret for each issue.

    Attributes:
        issues: all of them, in the order of their places.
    """

    def __init__(self, text: str, issues: tuple[Issue, ...]) -> None:
        """Keep the issues and write the report."""
        self.issues = issues
        super().__init__("\n".join(_report(text, issue) for issue in issues))


def too_deep(text: str) -> CompileError:
    """What is said of an expression that is nested deeper than can be followed."""
    return CompileError(text, (Issue("expression recursion limit exceeded", 0),))


class EvaluationError(Exception):
    """An expression has no value: `no such key: x`, `division by zero`. `&&`, `||`, `all` and `exists` may absorb it."""


class CostExceededError(Exception):
    """The budget is used up. No part of the language absorbs it, so it is no `EvaluationError`."""

    def __init__(self) -> None:
        """Say it in cel-go's words."""
        super().__init__("operation cancelled: actual cost limit exceeded")


def _report(text: str, issue: Issue) -> str:
    """`ERROR: <input>:1:6: undefined field 'x'`, the line, and a caret under the place (cel-go `common/error.go`)."""
    lines = text[: issue.position].split("\n")
    line, column = len(lines), len(lines[-1])
    source = text.split("\n")[line - 1].replace("\t", " ")
    dots = "".join(_WIDE_DOT if ord(character) > 0x7F else "." for character in source[:column])
    caret = _WIDE_CARET if column < len(source) and ord(source[column]) > 0x7F else "^"
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {source}\n | {dots}{caret}"
