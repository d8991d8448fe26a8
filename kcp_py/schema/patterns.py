"""Patterns written by tenants: RE2 only, so that no pattern can take exponential time, and compiled once.

Source: k8s.io/kube-openapi `pkg/validation/validate/values.go` (`Pattern`): an unanchored search with Go's `regexp`, whose syntax is RE2's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import re2

_CACHED: Final = 2048
"""Compiled patterns kept, over all tenants. The key is the whole pattern, so that sharing reveals nothing."""


_SMALL_PROGRAM: Final = 2000
"""Instructions of a program that is worth being compiled twice."""

_MAX_REPETITIONS: Final = 4000
"""RE2 takes time that grows with the square of the copies that counted repetitions make, and holds the interpreter's lock; this many are
50 ms."""

_PARTS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+\]|\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}|.", re.DOTALL)


class PatternError(ValueError):
    """A pattern that RE2 does not compile; the text is worded as Go's `regexp` words it."""


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


_OPTIONS: Final = _quiet()


@lru_cache(maxsize=_CACHED)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A predicate: whether the pattern is found anywhere in a text.

    Raises:
        PatternError: the pattern is not valid RE2.
    """
    check_pattern(pattern)
    expression = re2.compile(pattern, _OPTIONS)
    search = expression.search
    match = None if expression.programsize > _SMALL_PROGRAM else _set_match(pattern)
    if match is None:
        return lambda text: search(text) is not None
    return lambda text: bool(match(text)) or search(text) is not None


def _set_match(pattern: str) -> Callable[[str], Any] | None:
    """Finds the pattern as a Set of one; None where that is not possible.

    The search of a Set costs a fifth of a compiled expression's, which builds match objects. But a Set has no other way when its automaton
    outgrows its memory, and then finds nothing; so its "no" is only believed of the expression itself.
    """
    single = re2.Set.SearchSet(_OPTIONS)
    single.Add(pattern)
    try:
        single.Compile()
    except re2.error:
        return None
    match: Callable[[str], Any] = single.Match
    return match


@lru_cache(maxsize=_CACHED)
def compile_finder(pattern: str) -> Callable[[str], Iterator[str]]:
    """A function that yields what the pattern matches in a text, as Go's `FindAllString` does.

    Raises:
        PatternError: the pattern is not valid RE2.
    """
    check_pattern(pattern)
    finditer = re2.compile(pattern, _OPTIONS).finditer

    def found(text: str) -> Iterator[str]:
        # Of text, the library would convert the place of each match; of bytes it is three times as fast.
        data, end = text.encode("utf-8", "surrogatepass"), -1
        for match in finditer(data):
            start, stop = match.span()
            # Go, other than Python, takes no empty match right behind another match, and none takes one inside a character.
            if start == stop and (start == end or (start < len(data) and data[start] & 0xC0 == 0x80)):
                continue
            end = stop
            yield data[start:stop].decode("utf-8", "surrogatepass")

    return found


def check_pattern(pattern: str) -> None:
    """Compile without keeping anything.

    Raises:
        PatternError: the pattern is not valid RE2.
    """
    if "{" in pattern and repetitions(pattern) > _MAX_REPETITIONS:
        raise PatternError(f"error parsing regexp: expression too large: `{pattern}`")
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise PatternError(_go_text(error)) from None


def repetitions(pattern: str) -> int:
    """How many copies of its parts a pattern with counted repetitions stands for, about; what RE2 refuses counts as anything."""
    # One count for each group that is open, and of each what its last part stands for.
    totals, last = [0], [0]
    for match in _PARTS.finditer(pattern):
        part = match[0]
        if part == "(":
            totals.append(0)
            last.append(0)
        elif part == ")" and len(totals) > 1:
            inner = totals.pop()
            last.pop()
            totals[-1] += inner
            last[-1] = inner
        elif match[1] is not None:
            copies = max(int(match[1]), int(match[2] or 0))
            added = copies * max(last[-1], 1)
            totals[-1] += added - last[-1]
            last[-1] = added
        elif part not in "?*+":
            last[-1] = 0
    return max(sum(totals), 0)


_GO_TEXTS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
}


def _go_text(error: Exception) -> str:
    """RE2 and Go's `regexp` report the same mistakes in different words."""
    text = error.args[0] if error.args else ""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    mistake, colon, part = text.partition(": ")
    return f"error parsing regexp: {_GO_TEXTS.get(mistake, mistake)}: `{part if colon else ''}`"
