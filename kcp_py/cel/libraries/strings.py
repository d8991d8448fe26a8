"""More functions of strings (cel-go `ext/strings.go`, version 2, which is Kubernetes'). Places count characters, not bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.arithmetic import grown
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.dispatch import NO_SUCH_OVERLOAD
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.string_format import format_string
from kcp_py.cel.types import DYN, INT, STRING, Type, list_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["STRINGS"]

_SHORT: Final = 32
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {lower: upper for upper, lower in _LOWER.items()}
# Unicode's White_Space, which Go's `unicode.IsSpace` goes by; Python's `isspace` has four separators more.
_SPACES: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_ESCAPES: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
        **dict.fromkeys(map(chr, range(0xD800, 0xE000)), "\ufffd"),
    }
)


def _outside(place: int) -> EvaluationError:
    """The error about a place that a string does not have."""
    return EvaluationError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    """The character at a place; right behind the last, nothing."""
    if not 0 <= place <= len(text):
        raise _outside(place)
    return text[place : place + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    """The first place of `part` from `start` on, or -1."""
    if not part:
        return start
    if start < 0:
        raise _outside(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    """The last place of `part`, or -1."""
    if len(part) <= _SHORT:
        return text.rfind(part)
    # Python looks from the front in linear time, but from the back with as many steps as text and part multiplied.
    place = text[::-1].find(part[::-1])
    return place if place < 0 else len(text) - len(part) - place


def _last_index_of_before(text: str, part: str, last: int) -> int:
    """The last place of `part` that is not behind `last`, or -1."""
    if not part:
        return last
    if last < 0:
        raise _outside(last)
    return _last_index_of(text[: last + len(part)], part) if last < len(text) else -1


def _join(items: list[str], separator: str = "") -> str:
    """The strings of a list as one."""
    size = 0
    for place, item in enumerate(items):
        if type(item) is not str:
            raise EvaluationError(f"join: invalid input: {item}" if place else NO_SUCH_OVERLOAD)
        size += len(item) + len(separator)
    grown(size)
    return separator.join(items)


def _lower(text: str) -> str:
    """A copy with the letters A to Z in lower case."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def _upper(text: str) -> str:
    """A copy with the letters a to z in upper case."""
    return text.upper() if text.isascii() else text.translate(_UPPER)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """A copy with the first `limit` occurrences of `old` replaced; with a negative limit, all of them."""
    if len(new) > len(old):
        count = text.count(old)
        grown(len(text) + (count if limit < 0 else min(count, limit)) * (len(new) - len(old)))
    return text.replace(old, new, min(max(limit, -1), len(text) + 1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    """The parts between separators, at most `limit`, the rest being in the last; an empty separator stands between characters."""
    if limit == 0:
        return []
    if limit < 0 or limit > len(text) + 1:
        limit = len(text) + 1
    if separator:
        return text.split(separator, limit - 1)
    if limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int) -> str:
    """What begins at a place."""
    if not 0 <= start <= len(text):
        raise _outside(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    """What stands from `start` up to, not including, `end`."""
    if start > end:
        msg = f"invalid substring range. start: {start}, end: {end}"
        raise EvaluationError(msg)
    for place in (start, end):
        if not 0 <= place <= len(text):
            raise _outside(place)
    return text[start:end]


def _trim(text: str) -> str:
    """A copy without white space at both ends."""
    return text.strip(_SPACES)


def _quote(text: str) -> str:
    """The text as a CEL literal in double quotes."""
    grown(2 * len(text) + 2)
    return f'"{text.translate(_ESCAPES)}"'


def _member(name: str, *overloads: tuple[str, tuple[Type, ...], Type, Callable[..., object]]) -> Function:
    """A member function: (id, parameters, result, implementation) of each overload."""
    return Function(name, tuple(Overload(id_, kinds, result, member=True, implementation=run) for id_, kinds, result, run in overloads))


STRINGS: Final = Library(
    "cel.lib.ext.strings",
    functions=(
        _member("charAt", ("string_char_at_int", (STRING, INT), STRING, _char_at)),
        _member(
            "indexOf",
            ("string_index_of_string", (STRING, STRING), INT, _index_of),
            ("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of),
        ),
        _member(
            "lastIndexOf",
            ("string_last_index_of_string", (STRING, STRING), INT, _last_index_of),
            ("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of_before),
        ),
        _member(
            "join",
            ("list_join", (list_of(STRING),), STRING, _join),
            ("list_join_string", (list_of(STRING), STRING), STRING, _join),
        ),
        _member("lowerAscii", ("string_lower_ascii", (STRING,), STRING, _lower)),
        _member("upperAscii", ("string_upper_ascii", (STRING,), STRING, _upper)),
        _member(
            "replace",
            ("string_replace_string_string", (STRING, STRING, STRING), STRING, _replace),
            ("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace),
        ),
        _member(
            "split",
            ("string_split_string", (STRING, STRING), list_of(STRING), _split),
            ("string_split_string_int", (STRING, STRING, INT), list_of(STRING), _split),
        ),
        _member(
            "substring",
            ("string_substring_int", (STRING, INT), STRING, _substring),
            ("string_substring_int_int", (STRING, INT, INT), STRING, _substring_range),
        ),
        _member("trim", ("string_trim", (STRING,), STRING, _trim)),
        _member("format", ("string_format", (STRING, list_of(DYN)), STRING, format_string)),
        Function("strings.quote", (Overload("strings_quote", (STRING,), STRING, implementation=_quote),)),
    ),
)
