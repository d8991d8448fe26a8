"""What patterns find (apiserver `pkg/cel/library/regex.go`), on RE2."""

from __future__ import annotations

from itertools import islice
from typing import Final

from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.types import INT, STRING, list_of
from kcp_py.golang.regexp import PatternError, SearchTooLongError, compile_finder

__all__ = ["REGEX"]

_MOST: Final = 200_000
"""Matches of one call: each takes a microsecond or two, and upstream's cost does not count them."""


def _find(text: str, pattern: str) -> str:
    """The first match, or the empty string."""
    return next(iter(_find_all(text, pattern, 1)), "")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches, or the first `limit`; a negative limit means no limit."""
    try:
        matches = compile_finder(pattern)(text)
        found = list(islice(matches, _MOST + 1 if limit < 0 else min(limit, _MOST + 1)))
    except SearchTooLongError as error:
        raise CostExceededError from error
    except PatternError as error:
        msg = f"Illegal regex: {error}"
        raise EvaluationError(msg) from error
    if len(found) > _MOST:
        raise CostExceededError
    return found


REGEX: Final = Library(
    "kubernetes.regex",
    functions=(
        Function("find", (Overload("string_find_string", (STRING, STRING), STRING, member=True, implementation=_find),)),
        Function(
            "findAll",
            (
                Overload("string_find_all_string", (STRING, STRING), list_of(STRING), member=True, implementation=_find_all),
                Overload("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), member=True, implementation=_find_all),
            ),
        ),
    ),
)
