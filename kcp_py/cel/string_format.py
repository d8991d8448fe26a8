"""`text.format([…])`: the clauses `%s %d %f %e %b %x %X %o` (cel-go `ext/formatting.go`, which strings of version 2 have).

Numbers are written as golang.org/x/text writes them for `en_US`: `%f` with commas between thousands, `%e` with superscript exponents.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.arithmetic import grown
from kcp_py.cel.conversions import double_text, text_of_bytes
from kcp_py.cel.equality import type_of_value
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.times import duration_text, timestamp_text
from kcp_py.cel.values import BoolKey, Duration, Timestamp, TypeValue, UInt
from kcp_py.golang.quoting import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["format_string"]

_PRECISION: Final = 6
# Beyond this, Go's `fmt` takes no precision.
_LONGEST: Final = 1_000_000
_LONGEST_DIGITS: Final = 7
# What a part costs, however short it is: empty lists can stand in one another many times.
_PART: Final = 16
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_TIMES_TEN: Final = "\u202f\u00d7\u202f10"
_NON_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INTS: Final = frozenset({int, UInt})


def format_string(pattern: str, arguments: list[object]) -> str:
    """The pattern with each clause replaced by the next argument.

    Raises:
        EvaluationError: there is no argument for a clause, it is of a kind that the clause does not take, or a clause is unknown.
        CostExceededError: the result is too long.
    """
    output = _Output()
    place = used = 0
    while (clause := pattern.find("%", place)) >= 0:
        output.write(pattern[place:clause])
        if pattern.startswith("%", clause + 1):
            output.write("%")
            place = clause + 2
            continue
        if used >= len(arguments):
            msg = f"index {used} out of range"
            raise EvaluationError(msg)
        if clause + 1 >= len(pattern):
            msg = "unexpected end of string"
            raise EvaluationError(msg)
        place = _clause(output, pattern, clause + 1, arguments[used])
        used += 1
    output.write(pattern[place:])
    return "".join(output.parts)


class _Output:
    """Text that is being written, and how much of it there is."""

    __slots__ = ("_size", "parts")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.parts: list[str] = []
        self._size = 0

    def write(self, text: str) -> None:
        """Append.

        Raises:
            CostExceededError: it is too much.
        """
        self._size += len(text) + _PART
        grown(self._size)
        self.parts.append(text)


def _clause(output: _Output, pattern: str, place: int, value: object) -> int:
    """Write one argument by the clause that begins behind a `%`; returns the place behind the clause."""
    precision, place = _precision(pattern, place)
    letter = pattern[place]
    write = _CLAUSES.get(letter)
    if write is None:
        # Upstream looks at bytes.
        shown = letter if letter.isascii() else chr(letter.encode("utf-8", "surrogatepass")[0])
        msg = f'could not parse formatting clause: unrecognized formatting clause "{shown}"'
        raise EvaluationError(msg)
    try:
        write(output, value, precision)
    except EvaluationError as error:
        msg = f"error during formatting: {error}"
        raise EvaluationError(msg) from error
    return place + 1


def _precision(pattern: str, place: int) -> tuple[int, int]:
    """The digits behind a point, 6 if there is none, and the place behind them."""
    if pattern[place] != ".":
        return _PRECISION, place
    end = place + 1
    while end < len(pattern) and pattern[end] in "0123456789":
        end += 1
    digits = pattern[place + 1 : end]
    problem = ""
    if end >= len(pattern):
        problem = "could not find end of precision specifier"
    elif not digits:
        problem = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(digits.lstrip("0")) > _LONGEST_DIGITS or int(digits) > _LONGEST:
        problem = f"precision of more than {_LONGEST} digits"
    if problem:
        msg = f"could not parse formatting clause: error while parsing precision: {problem}"
        raise EvaluationError(msg)
    return int(digits), end


def _type_name(value: object) -> str:
    """The name of a value's type, without parameters."""
    return type_of_value(value).type.name


def _refuse(takes: str, value: object) -> EvaluationError:
    """The error about an argument of the wrong kind."""
    return EvaluationError(f"{takes}, was given {_type_name(value)}")


def _plain(value: Any) -> str | None:
    """A value as `string(x)` converts it; None: not one that can be."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool or kind is BoolKey:
        return "true" if value in {True, BoolKey.TRUE} else "false"
    if kind in _INTS:
        return str(int(value))
    if kind is float:
        return double_text(value)
    writer = _WRITERS.get(kind)
    return None if writer is None else writer(value)


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda _: "null",
    bytes: text_of_bytes,
    Timestamp: timestamp_text,
    Duration: duration_text,
    TypeValue: lambda value: str(value.type.name),
}


def _string(output: _Output, value: Any, _: int) -> None:
    """`%s`."""
    if type(value) is list or type(value) is dict:
        _nested(output, value)
        return
    text = _plain(value)
    if text is None:
        raise _refuse(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps", value
        )
    output.write(text)


def _nested(output: _Output, value: Any) -> None:
    """A value inside a list or map, as a CEL literal."""
    kind = type(value)
    if kind is list:
        output.write("[")
        for index, item in enumerate(value):
            output.write(", " if index else "")
            _nested(output, item)
        output.write("]")
    elif kind is dict:
        output.write("{")
        entries = [(_key(key), item) for key, item in value.items()]
        for index, (key, item) in enumerate(sorted(entries, key=operator.itemgetter(0))):
            output.write(f"{', ' if index else ''}{key}:")
            _nested(output, item)
        output.write("}")
    else:
        output.write(_literal(value))


def _key(key: object) -> str:
    """A map's key as a literal."""
    if type(key) is str:
        return go_quote(key)
    text = _plain(key) if type(key) in {bool, BoolKey, int, UInt} else None
    if text is None:
        raise EvaluationError(f"no formatting function for map key of type {_type_name(key)}")
    return text


def _literal(value: Any) -> str:
    """A scalar as a literal; doubles have six digits behind the point."""
    kind = type(value)
    if kind is float:
        return f"{value:.6f}" if math.isfinite(value) else f'"{double_text(value)}"'
    text = _plain(value)
    if text is None:
        raise EvaluationError(f"no formatting function for {_type_name(value)}")
    mark = _MARKS.get(kind)
    return text if mark is None else mark.format(go_quote(text))


_MARKS: Final[dict[type, str]] = {str: "{}", bytes: "b{}", Timestamp: "timestamp({})", Duration: "duration({})"}


def _decimal(output: _Output, value: Any, _: int) -> None:
    """`%d`."""
    if type(value) not in _INTS:
        raise _refuse("decimal clause can only be used on integers", value)
    output.write(str(int(value)))


def _number(value: Any, takes: str) -> float:
    """A double, or the text of one that is not a number."""
    if type(value) is str and value in _NON_NUMBERS:
        return float(value)
    if type(value) is not float:
        raise _refuse(takes, value)
    return value


def _non_number(number: float) -> str:
    """How NaN and the infinities are written."""
    return "NaN" if math.isnan(number) else "\u221e" if number > 0 else "-\u221e"


def _fixed(output: _Output, value: Any, precision: int) -> None:
    """`%f`."""
    number = _number(value, "fixed-point clause can only be used on doubles")
    grown(precision)
    output.write(f"{number:,.{precision}f}" if math.isfinite(number) else _non_number(number))


def _scientific(output: _Output, value: Any, precision: int) -> None:
    """`%e`. Upstream takes the precision as the minimum width: there are always six digits after the point."""
    number = _number(value, "scientific clause can only be used on doubles")
    if math.isfinite(number):
        mantissa, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
        text = f"{mantissa}{_TIMES_TEN}{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"
    else:
        text = _non_number(number)
    output.write(text.rjust(precision))


def _binary(output: _Output, value: Any, _: int) -> None:
    """`%b`."""
    if type(value) is not bool and type(value) not in _INTS:
        raise _refuse("only integers and bools can be formatted as binary", value)
    output.write(f"{int(value):b}")


def _octal(output: _Output, value: Any, _: int) -> None:
    """`%o`."""
    if type(value) not in _INTS:
        raise _refuse("octal clause can only be used on integers", value)
    output.write(f"{int(value):o}")


def _hexadecimal(*, upper: bool) -> Callable[[_Output, Any, int], None]:
    """`%x` and `%X`."""

    def write(output: _Output, value: Any, _: int) -> None:
        kind = type(value)
        if kind in _INTS:
            text = f"{int(value):x}"
        elif kind is bytes or kind is str:
            grown(2 * len(value))
            text = (value if kind is bytes else value.encode("utf-8", "surrogatepass")).hex()
        else:
            raise _refuse("only integers, byte buffers, and strings can be formatted as hex", value)
        output.write(text.upper() if upper else text)

    return write


_CLAUSES: Final[dict[str, Callable[[_Output, Any, int], None]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hexadecimal(upper=False),
    "X": _hexadecimal(upper=True),
    "o": _octal,
}
