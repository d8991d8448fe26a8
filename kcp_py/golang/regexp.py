"""Patterns written by tenants: RE2 only, so that no pattern can take exponential time, and compiled once.

Source: k8s.io/kube-openapi `pkg/validation/validate/values.go` (`Pattern`): an unanchored search with Go's `regexp`, whose syntax is RE2's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Any, Final, TypeVar

import re2

T = TypeVar("T")
R = TypeVar("R")

_CACHED: Final = 2048
"""Compiled patterns kept, over all tenants. The key is the whole pattern, so that sharing reveals nothing."""
_MOST_KNOWN: Final = 16
"""Texts of a pattern that are remembered because it was found in them: fields of many objects, and of one in all its writes, are equal."""
_KNOWN_LENGTH: Final = 64
"""Characters of such a text at the most."""


_SMALL_PROGRAM: Final = 2000
"""Instructions of a program that is worth being compiled twice."""

_MAX_REPETITIONS: Final = 4000
"""RE2 takes time that grows with the square of the copies that counted repetitions make, and holds the interpreter's lock; this many are
50 ms."""

_MAX_TEXT: Final = 40_000
"""Characters of a pattern. RE2 takes up to two microseconds for one, and holds the interpreter's lock."""

_UNICODE_CLASS: Final = 800
"""Characters that a Unicode class such as `\\pL` counts as: RE2 builds each of its some 600 ranges anew wherever it stands."""

_UNICODE_CLASSES: Final = re.compile(r"\\(?:[pP]|.)", re.DOTALL)

_FREE_STEPS: Final = 300_000
"""Steps of a search, instructions times characters, that are not counted: 3 ms in the worst case."""

_LONG_PATTERN: Final = 500
_COPY_MICROSECONDS: Final = 15
_MOST_MICROSECONDS: Final = 100_000
"""Then the program has outgrown its memory."""

_LONG_TEXT: Final = 1000
"""Bytes of a text from which on the matches in it are counted."""

_MAX_STEPS: Final = 250_000_000
"""Steps of all searches for one object: two seconds in the worst case, in which an automaton has too many states."""

_REST_STEPS: Final = 8
"""Bytes that an automaton reads in the time of a step."""

_PARTS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+\]|\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}|.", re.DOTALL)


class PatternError(ValueError):
    """A pattern that RE2 does not compile; the text is worded as Go's `regexp` words it."""


class SearchTooLongError(PatternError):
    """A search that takes, or would take, more than one object is given."""

    def __init__(self) -> None:
        super().__init__("pattern takes too long to be searched for in texts of this length")


class _Allowance:
    """The steps that the searches for one object may take. Searches within a `with` block share it."""

    __slots__ = ("_before", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self._before: Token[_Allowance | None] | None = None

    def __enter__(self) -> None:
        self._before = _ALLOWANCE.set(self)

    def __exit__(self, *_error: object) -> None:
        assert self._before is not None
        _ALLOWANCE.reset(self._before)

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise SearchTooLongError


_ALLOWANCE: Final[ContextVar[_Allowance | None]] = ContextVar("allowance", default=None)


def searches(*, long: bool = True) -> AbstractContextManager[None]:
    """Give one object, which is judged within, an allowance of steps for searches. Without it, each search has one of its own.

    Args:
        long: whether there may be searches that take long at all, for which the event loop has no time.
    """
    return _Allowance(_MAX_STEPS if long else 0)


_NOTHING: Final = _Allowance(0)


def free_searches(judge: Callable[[T], R], value: T) -> R:
    """Call a function all of whose searches are short enough not to be counted.

    Raises:
        SearchTooLongError: one of them is not.
    """
    before = _ALLOWANCE.set(_NOTHING)
    try:
        return judge(value)
    finally:
        _ALLOWANCE.reset(before)


def _allowance() -> _Allowance:
    return _ALLOWANCE.get() or _Allowance(_MAX_STEPS)


def _options(memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    return options


_OPTIONS: Final = _options(8 << 20)
"""For checks, and for programs that need so much memory: RE2's default."""

_SMALL_OPTIONS: Final = _options(1 << 20)
"""For all others. It is the states of the automaton that fill the memory, as texts ask for them."""


def _compiled(pattern: str) -> Any:
    """A valid pattern."""
    try:
        return re2.compile(pattern, _SMALL_OPTIONS)
    except re2.error:
        return re2.compile(pattern, _OPTIONS)


@lru_cache(maxsize=_CACHED)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A predicate: whether the pattern is found anywhere in a text. It raises `SearchTooLongError`.

    RE2 takes linear time, but with the size of the program as a factor where it needs too many states for an automaton. Searches that may
    take long are counted, see `searches`.

    Raises:
        PatternError: the pattern is not valid RE2.
    """
    check_pattern(pattern)
    expression = _compiled(pattern)
    search = expression.search
    size = expression.programsize
    free = _FREE_STEPS // size
    match = None if size > _SMALL_PROGRAM else _set_match(pattern)
    known: set[str] = set()

    def found(text: str) -> bool:
        if text in known:
            return True
        if len(text) > free:
            _allowance().take(len(text) * size)
        result = (match is not None and bool(match(text))) or search(text) is not None
        if result and len(text) <= _KNOWN_LENGTH and len(text) <= free:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known.add(text)
        return result

    return found


def _set_match(pattern: str) -> Callable[[str], Any] | None:
    """Finds the pattern as a Set of one; None where that is not possible.

    The search of a Set costs a fifth of a compiled expression's, which builds match objects. But a Set has no other way when its automaton
    outgrows its memory, and then finds nothing; so its "no" is only believed of the expression itself.
    """
    single = re2.Set.SearchSet(_SMALL_OPTIONS)
    single.Add(pattern)
    try:
        single.Compile()
    except re2.error:
        return None
    match: Callable[[str], Any] = single.Match
    return match


@lru_cache(maxsize=_CACHED)
def compile_finder(pattern: str) -> Callable[[str], Iterator[str]]:
    """A function that yields what the pattern matches in a text, as Go's `FindAllString` does. It raises `SearchTooLongError`.

    Raises:
        PatternError: the pattern is not valid RE2.
    """
    check_pattern(pattern)
    expression = _compiled(pattern)
    finditer, size = expression.finditer, expression.programsize

    def found(text: str) -> Iterator[str]:
        # Of text, the library would convert the place of each match; of bytes it is three times as fast.
        data, end = text.encode("utf-8", "surrogatepass"), -1
        allowance = None
        if len(data) > _LONG_TEXT:
            allowance = _allowance()
            allowance.take(len(data) * size)
        for match in finditer(data):
            start, stop = match.span()
            if allowance is not None:
                # The next match may need a look at all of the rest: the time can grow with the square of the text.
                allowance.take((len(data) - stop) // _REST_STEPS)
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
    if ("{" in pattern and repetitions(pattern) > _MAX_REPETITIONS) or _text_weight(pattern) > _MAX_TEXT:
        raise PatternError(f"error parsing regexp: expression too large: `{pattern}`")
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise PatternError(_go_text(error)) from None


def weight(pattern: str) -> int:
    """The copies of its parts that a pattern stands for, about: what a character of a text may cost in steps. 0: it is harmless."""
    if len(pattern) < _LONG_PATTERN and "\\p" not in pattern and "\\P" not in pattern:
        return repetitions(pattern) if "{" in pattern else 0
    return compile_microseconds(pattern)


def compile_microseconds(pattern: str) -> int:
    """How long it takes to compile a pattern, about: of the texts that count, an upper bound."""
    copies = repetitions(pattern) if "{" in pattern else 0
    text = _text_weight(pattern)
    unicode = copies * (text - len(pattern))
    return min(text + copies * _COPY_MICROSECONDS + unicode, _MOST_MICROSECONDS)


def _text_weight(pattern: str) -> int:
    """Characters, and what Unicode classes count as."""
    if "\\" not in pattern:
        return len(pattern)
    classes = sum(part in {"\\p", "\\P"} for part in _UNICODE_CLASSES.findall(pattern))
    return len(pattern) + _UNICODE_CLASS * classes


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
