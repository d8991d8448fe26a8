"""Patterns written by tenants: RE2 only, so that no pattern can take exponential time, and compiled once.

Source: k8s.io/kube-openapi `pkg/validation/validate/values.go` (`Pattern`): an unanchored search with Go's `regexp`, whose syntax is RE2's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import re2

_CACHED: Final = 2048
"""Compiled patterns kept, over all tenants. The key is the whole pattern, so that sharing reveals nothing."""


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
    # The search of a Set costs a fifth of a compiled expression's, which builds match objects. But a Set has no other way when its
    # automaton outgrows its memory, and then finds nothing; so its "no" is only believed of the expression itself.
    single = re2.Set.SearchSet(_OPTIONS)
    single.Add(pattern)
    single.Compile()
    match = single.Match
    expression: Any = None

    def found(text: str) -> bool:
        nonlocal expression
        if match(text):
            return True
        if expression is None:
            expression = re2.compile(pattern, _OPTIONS)
        return expression.search(text) is not None

    return found


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
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise PatternError(_go_text(error)) from None


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
