"""The two ways in which an expression fails: it cannot be compiled, or it has no value."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CompileError", "CostExceededError", "EvaluationError", "InstantiationError", "Issue", "Issues", "too_deep"]

_WIDE_DOT: Final = "\uff0e"
_WIDE_CARET: Final = "\uff3e"
_MOST_ISSUES: Final = 100
_LONGEST_LINE: Final = 16_384
"""Bytes of a line that is shown; for a longer line only the position is given."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with an expression's text.

    Attributes:
        message: cel-go's words, `undefined field 'x'`.
        position: offset in characters from the start of the text.
    """

    message: str
    position: int


class Issues:
    """The problems of one text: the first hundred are kept, the others counted (cel-go `common/errors.go`)."""

    __slots__ = ("_kept", "_more")

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: list[Issue] = []
        self._more = 0

    def add(self, message: str | Callable[[], str], position: int) -> None:
        """Add a problem. A message given as a function is only computed where it is kept."""
        if len(self._kept) < _MOST_ISSUES:
            self._kept.append(Issue(message if isinstance(message, str) else message(), position))
        else:
            self._more += 1

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._kept)

    def error(self, text: str) -> CompileError:
        """All of them as one error."""
        return CompileError(text, tuple(sorted(self._kept, key=lambda issue: issue.position)), self._more)


class CompileError(Exception):
    """The text is not an expression, or has no type. `str()` equals cel-go's output: one block with the line and a caret for each issue.

    Attributes:
        issues: in the order of their places; at most a hundred.
    """

    def __init__(self, text: str, issues: tuple[Issue, ...], more: int = 0) -> None:
        """Keep the issues and write the report.

        Args:
            text: the source.
            issues: the problems to show.
            more: how many others there are.
        """
        self.issues = issues
        lines = _Lines(text)
        reports = [lines.report(issue) for issue in issues]
        super().__init__("\n".join([*reports, f"{more} more errors were truncated"] if more else reports))


class InstantiationError(CompileError):
    """The text is an expression, but a constant in it cannot be computed; `str()` is why. Upstream says so of a program, not of a text."""

    def __init__(self, message: str) -> None:
        """Keep why."""
        self.issues = (Issue(message, 0),)
        Exception.__init__(self, message)


def too_deep(text: str) -> CompileError:
    """The error for an expression that is nested too deeply."""
    return CompileError(text, (Issue("expression recursion limit exceeded", 0),))


class EvaluationError(Exception):
    """An expression has no value: `no such key: x`, `division by zero`. `&&`, `||`, `all` and `exists` may absorb it."""


class CostExceededError(Exception):
    """The budget is used up. No part of the language absorbs it, so it is not an `EvaluationError`."""

    def __init__(self) -> None:
        """Say it in cel-go's words."""
        super().__init__("operation cancelled: actual cost limit exceeded")


class _Lines:
    """A text whose lines are shown with the problems in them."""

    def __init__(self, text: str) -> None:
        """Find the lines, once for all issues."""
        self._lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))

    def report(self, issue: Issue) -> str:
        """`ERROR: <input>:1:6: undefined field 'x'`, the line, and a caret under the place (cel-go `common/error.go`)."""
        number = min(bisect_right(self._starts, issue.position), len(self._lines)) - 1
        line, column = self._lines[number], issue.position - self._starts[number]
        head = f"ERROR: <input>:{number + 1}:{column + 1}: {issue.message}"
        if len(line.encode("utf-8", "surrogatepass")) > _LONGEST_LINE:
            return head
        line = line.replace("\t", " ")
        dots = "".join(_WIDE_DOT if ord(character) > 0x7F else "." for character in line[:column])
        caret = _WIDE_CARET if column < len(line) and ord(line[column]) > 0x7F else "^"
        return f"{head}\n | {line}\n | {dots}{caret}"
