"""`format`: the cases of cel-go's `ext/formatting_test.go`, evaluated through the function itself."""

from __future__ import annotations

import math

import pytest

from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.string_format import format_string
from kcp_py.cel.types import STRING, list_of
from kcp_py.cel.values import NONE, BoolKey, Duration, Timestamp, TypeValue, UInt

SECOND = 10**9
NIGHT = Timestamp(1_675_467_080 * SECOND)
NARROW = "\u202f\u00d7\u202f10"

VALUES: list[tuple[str, list[object], str]] = [
    ("no substitution", [], "no substitution"),
    ("str is %s and some more", ["filler"], "str is filler and some more"),
    ("%% and also %%", [], "% and also %"),
    ("%%%s%%", ["text"], "%text%"),
    ("%d %d %d, %s %s", [1, 2, UInt(3), "A", "B"], "1 2 3, A B"),
    ("%.3f", [1.2345], "1.234"),
    ("%f", [2.71828], "2.718280"),
    ("%.0f", [2.5], "2"),
    ("%f", [1234567.5], "1,234,567.500000"),
    ("%f %f %f", ["NaN", "Infinity", "-Infinity"], "NaN \u221e -\u221e"),
    ("%f %f", [math.nan, math.inf], "NaN \u221e"),
    ("%.6e", [1052.032911275], f"1.052033{NARROW}\u2070\u00b3"),
    ("%e", [2.71828], f"2.718280{NARROW}\u2070\u2070"),
    ("%.2e", [2.71828], f"2.718280{NARROW}\u2070\u2070"),
    ("%e", [-1.5e-120], f"-1.500000{NARROW}\u207b\u00b9\u00b2\u2070"),
    ("%b %b %b %b", [5, -5, UInt(64), True], "101 -101 1000000 1"),
    ("%o %o %o", [11, -11, UInt(65535)], "13 -13 177777"),
    ("%x %X %x %X", [30, 30, -30, UInt(6000)], "1e 1E -1e 1770"),
    ("%x %X", ["Hello world!", "Hello world!"], "48656c6c6f20776f726c6421 48656C6C6F20776F726C6421"),
    ("%x %X", [b"\x00byte", b"byte"], "0062797465 62797465"),
    ("%s", [2.71], "2.71"),
    ("%s", [0.000000002], "2e-09"),
    ("%s", [[0.000000002, 2.71]], "[0.000000, 2.710000]"),
    ("%s %s %s", [math.nan, math.inf, -math.inf], "NaN +Inf -Inf"),
    ("%s", [[math.nan, math.inf, -math.inf]], '["NaN", "+Inf", "-Inf"]'),
    ("%s", [None], "null"),
    ("%s", [999999999999], "999999999999"),
    ("%s", [b"xyz"], "xyz"),
    ("%s %s", [TypeValue(STRING), TypeValue(list_of(STRING))], "string list"),
    ("%s", [NIGHT], "2023-02-03T23:31:20Z"),
    ("%s %s", [Duration(6347 * SECOND), Duration(2)], "6347s 0.000000002s"),
    ("%s, %s", [True, False], "true, false"),
    ("%s", [["abc", 3.14, None, [9, 8], NIGHT]], '["abc", 3.140000, null, [9, 8], timestamp("2023-02-03T23:31:20Z")]'),
    (
        "%s",
        [{"key1": b"xyz", "key5": None, "key2": Duration(7200 * SECOND), "key4": True, "key3": 2.71828}],
        '{"key1":b"xyz", "key2":duration("7200s"), "key3":2.718280, "key4":true, "key5":null}',
    ),
    ("%s", [{1: "value1", UInt(2): "value2", BoolKey.TRUE: math.nan}], '{1:"value1", 2:"value2", true:"NaN"}'),
    ("%s", [['a"\n']], '["a\\"\\n"]'),
    ("%s", ["extra", "arguments"], "extra"),
]


@pytest.mark.parametrize(("pattern", "arguments", "wanted"), VALUES)
def test_values(pattern: str, arguments: list[object], wanted: str) -> None:
    """Every clause writes what cel-go writes for en_US."""
    assert format_string(pattern, arguments) == wanted


STRING_TAKES = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
PRECISION = "could not parse formatting clause: error while parsing precision"
ERRORS: list[tuple[str, list[object], str]] = [
    ("%a", [1], 'could not parse formatting clause: unrecognized formatting clause "a"'),
    ("%E", [0.5], 'could not parse formatting clause: unrecognized formatting clause "E"'),
    ("%\u00e9", [1], 'could not parse formatting clause: unrecognized formatting clause "\u00c3"'),
    ("%d %d %d", [0, 1], "index 2 out of range"),
    ("filler %", ["x"], "unexpected end of string"),
    ("filler %", [], "index 0 out of range"),
    ("%.34", [5.0], f"{PRECISION}: could not find end of precision specifier"),
    (
        "%.f",
        [5.0],
        f'{PRECISION}: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax',
    ),
    ("%b", ["abc"], "error during formatting: only integers and bools can be formatted as binary, was given string"),
    ("%d", [Duration(1)], "error during formatting: decimal clause can only be used on integers, was given google.protobuf.Duration"),
    ("%d", [None], "error during formatting: decimal clause can only be used on integers, was given null_type"),
    ("%d", [True], "error during formatting: decimal clause can only be used on integers, was given bool"),
    ("%o", ["a"], "error during formatting: octal clause can only be used on integers, was given string"),
    ("%x", [0.5], "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double"),
    ("%f", [1], "error during formatting: fixed-point clause can only be used on doubles, was given int"),
    ("%f", ["1.5"], "error during formatting: fixed-point clause can only be used on doubles, was given string"),
    ("%e", [None], "error during formatting: scientific clause can only be used on doubles, was given null_type"),
    ("%s", [NONE], f"error during formatting: {STRING_TAKES}, was given optional_type"),
    ("%s", [[NONE]], "error during formatting: no formatting function for optional_type"),
    ("%s", [b"\xff"], "error during formatting: invalid UTF-8 in bytes, cannot convert to string"),
]


@pytest.mark.parametrize(("pattern", "arguments", "message"), ERRORS)
def test_errors(pattern: str, arguments: list[object], message: str) -> None:
    """A clause without an argument, or with one of the wrong kind, is an error in cel-go's words."""
    with pytest.raises(EvaluationError) as raised:
        format_string(pattern, arguments)
    assert str(raised.value) == message


def test_a_list_in_itself_many_times_is_cut_off() -> None:
    """Shared parts are counted as often as they are written."""
    items: list[object] = []
    for _ in range(60):
        items = [items, items]
    with pytest.raises(CostExceededError):
        format_string("%s", [items])


@pytest.mark.parametrize("precision", ["9" * 100_000, "1000001"])
def test_an_enormous_precision_is_an_error(precision: str) -> None:
    """Go's own limit stands, and digits without end are not read."""
    with pytest.raises(EvaluationError, match="precision"):
        format_string(f"%.{precision}f", [1.0])
