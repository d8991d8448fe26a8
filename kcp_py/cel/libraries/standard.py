"""The standard functions and operators of the language (cel-spec, "Standard definitions"; ids of cel-go `common/overloads`)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import conversions, operators
from kcp_py.cel.arithmetic import (
    concatenate,
    divide_double,
    divide_int,
    divide_uint,
    int_operation,
    modulo_int,
    modulo_uint,
    multiply_double,
    to_int,
    to_uint,
    uint_operation,
)
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.equality import contains, equal, type_of_value
from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.macros import STANDARD as STANDARD_MACROS
from kcp_py.cel.times import duration_text, local, new_duration, new_timestamp, timestamp_text
from kcp_py.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    type_of,
    type_parameter,
)
from kcp_py.cel.values import BoolKey, Duration, Timestamp, UInt
from kcp_py.golang.durations import SECOND
from kcp_py.golang.regexp import PatternError, SearchTooLongError, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["STANDARD", "index_list", "index_map", "list_place", "map_key", "matches"]

_A: Final = type_parameter("A")
_B: Final = type_parameter("B")
_LIST: Final = list_of(_A)
_MAP: Final = map_of(_A, _B)
_NUMBERS: Final = {"int64": INT, "uint64": UINT, "double": DOUBLE}
_ORDERED: Final = {
    "bool": BOOL,
    **_NUMBERS,
    "string": STRING,
    "bytes": BYTES,
    "timestamp": TIMESTAMP,
    "duration": DURATION,
}


def matches(text: str, pattern: str) -> bool:
    """Whether RE2 finds `pattern` anywhere in `text`."""
    try:
        return compile_pattern(pattern)(text)
    except SearchTooLongError as error:
        raise CostExceededError from error
    except PatternError as error:
        raise EvaluationError(str(error)) from error


def map_key(value: object) -> Any:
    """A value as the key of a dict.

    Raises:
        EvaluationError: a value of its kind cannot be a key.
    """
    kind = type(value)
    if kind is str or kind is int or kind is UInt:
        return value
    if kind is bool:
        return BoolKey(value)
    if kind is float:
        return value
    msg = f"unsupported key type: {type_of_value(value).type}"
    raise EvaluationError(msg)


def index_list(items: list[object], index: object) -> object:
    """The element at a place counted from zero."""
    place = list_place(index)
    if not 0 <= place < len(items):
        msg = f"index out of bounds: {index}"
        raise EvaluationError(msg)
    return items[place]


def list_place(index: object) -> int:
    """An index of a list as an int; where its type was not known it may be a whole number of any kind.

    Raises:
        EvaluationError: it is not one.
    """
    if type(index) is int or type(index) is UInt or (type(index) is float and index.is_integer()):
        return int(index)
    msg = f"unsupported index type '{type_of_value(index).type}' in list"
    raise EvaluationError(msg)


def index_map(entries: dict[object, object], key: object) -> object:
    """The value of a key."""
    try:
        return entries[map_key(key)]
    except KeyError as error:
        msg = f"no such key: {key}"
        raise EvaluationError(msg) from error


def _in_map(key: object, entries: dict[object, object]) -> bool:
    """Whether a map has a key; of what cannot be a key it has none."""
    try:
        return map_key(key) in entries
    except EvaluationError:
        return False


def _relation(name: str, compare: Callable[[Any, Any], bool]) -> Function:
    """An order: of equal kinds, and of numbers of different kinds."""
    function = {"less": "_<_", "less_equals": "_<=_", "greater": "_>_", "greater_equals": "_>=_"}[name]
    same = [Overload(f"{name}_{kind}", (type_, type_), BOOL, implementation=compare) for kind, type_ in _ORDERED.items()]
    cross = [
        Overload(f"{name}_{one}_{other}", (type_, other_type), BOOL, implementation=compare)
        for one, type_ in _NUMBERS.items()
        for other, other_type in _NUMBERS.items()
        if one != other
    ]
    return Function(function, (*same, *cross))


def _unary(function: str, *overloads: tuple[str, Type, Type, Callable[[Any], object] | None]) -> Function:
    """A function of one argument: (id, parameter, result, implementation)."""
    return Function(function, tuple(Overload(id_, (kind,), result, implementation=run) for id_, kind, result, run in overloads))


def _binary(function: str, *overloads: tuple[str, Type, Type, Type, Callable[[Any, Any], object] | None]) -> Function:
    """An operator: (id, left, right, result, implementation)."""
    return Function(
        function, tuple(Overload(id_, (left, right), result, implementation=run) for id_, left, right, result, run in overloads)
    )


def _same(value: object) -> object:
    """A conversion to what a value already is."""
    return value


def _text(function: str, stem: str, run: Callable[[str, str], bool]) -> Function:
    """A member function of two strings."""
    return Function(function, (Overload(f"{stem}_string", (STRING, STRING), BOOL, member=True, implementation=run),))


def _calendar(function: str, stem: str, read: Callable[[Any], int]) -> tuple[Overload, Overload]:
    """A part of a timestamp in UTC, or in a zone."""
    del function
    return (
        Overload(stem, (TIMESTAMP,), INT, member=True, implementation=lambda moment: read(local(moment))),
        Overload(f"{stem}_with_tz", (TIMESTAMP, STRING), INT, member=True, implementation=lambda moment, zone: read(local(moment, zone))),
    )


def _milliseconds(moment: Timestamp) -> int:
    """The part of the second, which no zone changes."""
    return moment.nanoseconds % SECOND // 1_000_000


def _milliseconds_in(moment: Timestamp, zone: str) -> int:
    """The milliseconds of the second in a zone, which has to exist."""
    local(moment, zone)
    return _milliseconds(moment)


def _whole(unit: int) -> Callable[[Duration], int]:
    """A duration in whole units, towards zero."""

    def count(value: Duration) -> int:
        whole = abs(value.nanoseconds) // unit
        return -whole if value.nanoseconds < 0 else whole

    return count


def _accessors() -> tuple[Function, ...]:
    """`getFullYear` and its like."""
    calendar: dict[str, tuple[str, Callable[[Any], int]]] = {
        "getFullYear": ("timestamp_to_year", lambda moment: int(moment.year)),
        "getMonth": ("timestamp_to_month", lambda moment: int(moment.month) - 1),
        "getDayOfYear": ("timestamp_to_day_of_year", lambda moment: int(moment.timetuple().tm_yday) - 1),
        "getDayOfMonth": ("timestamp_to_day_of_month", lambda moment: int(moment.day) - 1),
        "getDate": ("timestamp_to_day_of_month_1_based", lambda moment: int(moment.day)),
        "getDayOfWeek": ("timestamp_to_day_of_week", lambda moment: int(moment.isoweekday()) % 7),
        "getHours": ("timestamp_to_hours", lambda moment: int(moment.hour)),
        "getMinutes": ("timestamp_to_minutes", lambda moment: int(moment.minute)),
        "getSeconds": ("timestamp_to_seconds", lambda moment: int(moment.second)),
    }
    lengths = {"getHours": ("hours", 3600 * SECOND), "getMinutes": ("minutes", 60 * SECOND), "getSeconds": ("seconds", SECOND)}
    functions = []
    for function, (stem, read) in calendar.items():
        overloads = list(_calendar(function, stem, read))
        if function in lengths:
            name, unit = lengths[function]
            overloads.append(Overload(f"duration_to_{name}", (DURATION,), INT, member=True, implementation=_whole(unit)))
        functions.append(Function(function, tuple(overloads)))
    milliseconds = (
        Overload("timestamp_to_milliseconds", (TIMESTAMP,), INT, member=True, implementation=_milliseconds),
        Overload("timestamp_to_milliseconds_with_tz", (TIMESTAMP, STRING), INT, member=True, implementation=_milliseconds_in),
        Overload("duration_to_milliseconds", (DURATION,), INT, member=True, implementation=_whole(1_000_000)),
    )
    return (*functions, Function("getMilliseconds", milliseconds))


_SIZES: Final = {"string": STRING, "bytes": BYTES, "list": _LIST, "map": _MAP}
_ARITHMETIC: Final = (
    _binary(
        operators.ADD,
        ("add_int64", INT, INT, INT, int_operation(operator.add)),
        ("add_uint64", UINT, UINT, UINT, uint_operation(operator.add)),
        ("add_double", DOUBLE, DOUBLE, DOUBLE, operator.add),
        ("add_string", STRING, STRING, STRING, concatenate),
        ("add_bytes", BYTES, BYTES, BYTES, concatenate),
        ("add_list", _LIST, _LIST, _LIST, concatenate),
        ("add_duration_duration", DURATION, DURATION, DURATION, lambda a, b: new_duration(a.nanoseconds + b.nanoseconds)),
        ("add_duration_timestamp", DURATION, TIMESTAMP, TIMESTAMP, lambda a, b: new_timestamp(a.nanoseconds + b.nanoseconds)),
        ("add_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP, lambda a, b: new_timestamp(a.nanoseconds + b.nanoseconds)),
    ),
    _binary(
        operators.SUBTRACT,
        ("subtract_int64", INT, INT, INT, int_operation(operator.sub)),
        ("subtract_uint64", UINT, UINT, UINT, uint_operation(operator.sub)),
        ("subtract_double", DOUBLE, DOUBLE, DOUBLE, operator.sub),
        ("subtract_timestamp_timestamp", TIMESTAMP, TIMESTAMP, DURATION, lambda a, b: new_duration(a.nanoseconds - b.nanoseconds)),
        ("subtract_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP, lambda a, b: new_timestamp(a.nanoseconds - b.nanoseconds)),
        ("subtract_duration_duration", DURATION, DURATION, DURATION, lambda a, b: new_duration(a.nanoseconds - b.nanoseconds)),
    ),
    _binary(
        operators.MULTIPLY,
        ("multiply_int64", INT, INT, INT, int_operation(operator.mul)),
        ("multiply_uint64", UINT, UINT, UINT, uint_operation(operator.mul)),
        ("multiply_double", DOUBLE, DOUBLE, DOUBLE, multiply_double),
    ),
    _binary(
        operators.DIVIDE,
        ("divide_int64", INT, INT, INT, divide_int),
        ("divide_uint64", UINT, UINT, UINT, divide_uint),
        ("divide_double", DOUBLE, DOUBLE, DOUBLE, divide_double),
    ),
    _binary(operators.MODULO, ("modulo_int64", INT, INT, INT, modulo_int), ("modulo_uint64", UINT, UINT, UINT, modulo_uint)),
    _unary(
        operators.NEGATE,
        ("negate_int64", INT, INT, lambda value: to_int(-value)),
        ("negate_double", DOUBLE, DOUBLE, operator.neg),
    ),
)
_LOGIC: Final = (
    Function(operators.CONDITIONAL, (Overload("conditional", (BOOL, _A, _A), _A),)),
    Function(operators.AND, (Overload("logical_and", (BOOL, BOOL), BOOL),)),
    Function(operators.OR, (Overload("logical_or", (BOOL, BOOL), BOOL),)),
    _unary(operators.NOT, ("logical_not", BOOL, BOOL, operator.not_)),
    _unary(operators.NOT_STRICTLY_FALSE, ("not_strictly_false", BOOL, BOOL, _same)),
    _binary(operators.EQUALS, ("equals", _A, _A, BOOL, equal)),
    _binary(operators.NOT_EQUALS, ("not_equals", _A, _A, BOOL, lambda a, b: not equal(a, b))),
    _relation("less", operator.lt),
    _relation("less_equals", operator.le),
    _relation("greater", operator.gt),
    _relation("greater_equals", operator.ge),
)
_CONTAINERS: Final = (
    _binary(operators.INDEX, ("index_list", _LIST, INT, _A, index_list), ("index_map", _MAP, _A, _B, index_map)),
    _binary(operators.IN, ("in_list", _A, _LIST, BOOL, contains), ("in_map", _A, _MAP, BOOL, _in_map)),
    Function(
        "size",
        (
            *(Overload(f"size_{name}", (kind,), INT, implementation=len) for name, kind in _SIZES.items()),
            *(Overload(f"{name}_size", (kind,), INT, member=True, implementation=len) for name, kind in _SIZES.items()),
        ),
    ),
)
_TEXT: Final = (
    _text("contains", "contains", lambda text, part: part in text),
    _text("startsWith", "starts_with", str.startswith),
    _text("endsWith", "ends_with", str.endswith),
    Function(
        "matches",
        (
            Overload("matches", (STRING, STRING), BOOL, implementation=matches),
            Overload("matches_string", (STRING, STRING), BOOL, member=True, implementation=matches),
        ),
    ),
)
_CONVERSIONS: Final = (
    _unary("type", ("type", _A, type_of(_A), type_of_value)),
    _unary("dyn", ("to_dyn", _A, DYN, _same)),
    _unary(
        "bool",
        ("bool_to_bool", BOOL, BOOL, _same),
        ("string_to_bool", STRING, BOOL, conversions.bool_of_text),
    ),
    _unary("bytes", ("bytes_to_bytes", BYTES, BYTES, _same), ("string_to_bytes", STRING, BYTES, str.encode)),
    _unary(
        "int",
        ("int64_to_int64", INT, INT, _same),
        ("uint64_to_int64", UINT, INT, lambda value: to_int(int(value))),
        ("double_to_int64", DOUBLE, INT, conversions.int_of_double),
        ("string_to_int64", STRING, INT, conversions.int_of_text),
        ("timestamp_to_int64", TIMESTAMP, INT, conversions.int_of_timestamp),
        ("duration_to_int64", DURATION, INT, lambda value: value.nanoseconds),
    ),
    _unary(
        "uint",
        ("uint64_to_uint64", UINT, UINT, _same),
        ("int64_to_uint64", INT, UINT, to_uint),
        ("double_to_uint64", DOUBLE, UINT, conversions.uint_of_double),
        ("string_to_uint64", STRING, UINT, conversions.uint_of_text),
    ),
    _unary(
        "double",
        ("double_to_double", DOUBLE, DOUBLE, _same),
        ("int64_to_double", INT, DOUBLE, float),
        ("uint64_to_double", UINT, DOUBLE, float),
        ("string_to_double", STRING, DOUBLE, conversions.double_of_text),
    ),
    _unary(
        "string",
        ("string_to_string", STRING, STRING, _same),
        ("bool_to_string", BOOL, STRING, lambda value: "true" if value else "false"),
        ("bytes_to_string", BYTES, STRING, conversions.text_of_bytes),
        ("double_to_string", DOUBLE, STRING, conversions.double_text),
        ("duration_to_string", DURATION, STRING, duration_text),
        ("int64_to_string", INT, STRING, str),
        ("timestamp_to_string", TIMESTAMP, STRING, timestamp_text),
        ("uint64_to_string", UINT, STRING, lambda value: str(int(value))),
    ),
    _unary(
        "timestamp",
        ("timestamp_to_timestamp", TIMESTAMP, TIMESTAMP, _same),
        ("int64_to_timestamp", INT, TIMESTAMP, conversions.timestamp_of_int),
        ("string_to_timestamp", STRING, TIMESTAMP, conversions.timestamp_of_text),
    ),
    _unary(
        "duration",
        ("duration_to_duration", DURATION, DURATION, _same),
        ("int64_to_duration", INT, DURATION, new_duration),
        ("string_to_duration", STRING, DURATION, conversions.duration_of_text),
    ),
)

STANDARD: Final = Library(
    "cel.lib.std",
    functions=(*_LOGIC, *_ARITHMETIC, *_CONTAINERS, *_TEXT, *_CONVERSIONS, *_accessors()),
    macros=STANDARD_MACROS,
    types={
        "bool": BOOL,
        "bytes": BYTES,
        "double": DOUBLE,
        "google.protobuf.Duration": DURATION,
        "google.protobuf.Timestamp": TIMESTAMP,
        "int": INT,
        "list": list_of(DYN),
        "map": map_of(DYN, DYN),
        "null_type": NULL,
        "string": STRING,
        "type": type_of(DYN),
        "uint": UINT,
    },
)
