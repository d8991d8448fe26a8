"""Functions of strings: cel-go's documented examples, unit tests and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError
from kcp_py.cel.libraries.strings import STRINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "'tacocat'.charAt(3)": "o",
    "'tacocat'.charAt(7)": "",
    "'\u00a9\u03b1T'.charAt(0) + '\u00a9\u03b1T'.charAt(1)": "\u00a9\u03b1",
    "'tacocat'.indexOf('')": 0,
    "'tacocat'.indexOf('ac')": 1,
    "'tacocat'.indexOf('none')": -1,
    "'tacocat'.indexOf('', 3)": 3,
    "'tacocat'.indexOf('a', 3)": 5,
    "'tacocat'.indexOf('at', 3)": 5,
    "'ta\u00a9o\u00a9\u03b1T'.indexOf('\u00a9')": 2,
    "'ta\u00a9o\u00a9\u03b1T'.indexOf('\u00a9\u03b1T', 3)": 4,
    "'tacocat'.indexOf('a', 30)": -1,
    "''.indexOf('a')": -1,
    "'tacocat'.lastIndexOf('')": 7,
    "'tacocat'.lastIndexOf('at')": 5,
    "'tacocat'.lastIndexOf('none')": -1,
    "'tacocat'.lastIndexOf('', 3)": 3,
    "'tacocat'.lastIndexOf('a', 3)": 1,
    "'ta\u00a9o\u00a9\u03b1T'.lastIndexOf('\u00a9', 3)": 2,
    "'hello mellow'.lastIndexOf('ello', 6)": 1,
    "'hello mellow'.lastIndexOf('ello', 8)": 7,
    "'tacocat'.lastIndexOf('a', 30)": -1,
    "'12 days 12 hours'.replace('{0}', '2')": "12 days 12 hours",
    "'{0} days {0} hours'.replace('{0}', '2')": "2 days 2 hours",
    "'{0} days {0} hours'.replace('{0}', '2', 1).replace('{0}', '23')": "2 days 23 hours",
    "'1 \u00a9\u03b1T taco'.replace('\u03b1T', 'o\u00a9\u03b1T')": "1 \u00a9o\u00a9\u03b1T taco",
    "'hello hello'.replace('', '_')": "_h_e_l_l_o_ _h_e_l_l_o_",
    "'hello hello'.replace('h', '')": "ello ello",
    "'hello hello'.replace('he', 'we', -7)": "wello wello",
    "'hello hello'.replace('he', 'we', 0)": "hello hello",
    "'hello hello'.replace('', '_', 2)": "_h_ello hello",
    "'hello world'.split(' ')": ["hello", "world"],
    "'hello world events!'.split(' ', 0)": [],
    "'hello world events!'.split(' ', 1)": ["hello world events!"],
    "'o\u00a9o\u00a9o\u00a9o'.split('\u00a9', -1)": ["o", "o", "o", "o"],
    "'hello hello hello'.split(' ', 2)": ["hello", "hello hello"],
    "'abc'.split('')": ["a", "b", "c"],
    "'abc'.split('', 2)": ["a", "bc"],
    "''.split('')": [],
    "''.split(',')": [""],
    "'tacocat'.substring(4)": "cat",
    "'tacocat'.substring(7)": "",
    "'tacocat'.substring(0, 4)": "taco",
    "'tacocat'.substring(4, 4)": "",
    "'ta\u00a9o\u00a9\u03b1T'.substring(2, 6)": "\u00a9o\u00a9\u03b1",
    "' \\f\\n\\r\\t\\vtext  '.trim()": "text",
    "'\\u0085\\u00a0\\u1680text'.trim()": "text",
    "'text\\u2000\\u2001\\u2002\\u2003\\u2004\\u2004\\u2006\\u2007\\u2008\\u2009'.trim()": "text",
    "'\\u200atext\\u2028\\u2029\\u202F\\u205F\\u3000'.trim()": "text",
    "'\\u180etext\\u200b\\u200c\\u200d\\u2060\\ufeff'.trim()": "\u180etext\u200b\u200c\u200d\u2060\ufeff",
    "'\\u001ctext\\u001f'.trim()": "\x1ctext\x1f",
    "'TacoCat'.lowerAscii()": "tacocat",
    "'TacoC\u00c6t Xii'.lowerAscii()": "tacoc\u00c6t xii",
    "'tacoCat'.upperAscii()": "TACOCAT",
    "'tacoC\u00e6t xii'.upperAscii()": "TACOC\u00e6T XII",
    "['x', 'y'].join()": "xy",
    "['x', 'y'].join('-')": "x-y",
    "[].join()": "",
    "[].join('-')": "",
    'strings.quote("first\\nsecond")': '"first\\nsecond"',
    'strings.quote("bell\\a\\b\\f\\r\\t\\v")': '"bell\\a\\b\\f\\r\\t\\v"',
    "strings.quote('single-quote with \"double quote\" \\\\')": '"single-quote with \\"double quote\\" \\\\"',
    "strings.quote('\U0001f431')": '"\U0001f431"',
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Each function gives what cel-go's gives."""
    assert evaluate(text, STRINGS) == wanted


ERRORS = {
    "'tacocat'.charAt(30) == ''": "index out of range: 30",
    "'tacocat'.charAt(-1)": "index out of range: -1",
    "'tacocat'.indexOf('a', -1)": "index out of range: -1",
    "'tacocat'.lastIndexOf('a', -1)": "index out of range: -1",
    "'tacocat'.substring(40)": "index out of range: 40",
    "'tacocat'.substring(-1)": "index out of range: -1",
    "'tacocat'.substring(1, 50)": "index out of range: 50",
    "'tacocat'.substring(49, 50)": "index out of range: 49",
    "'tacocat'.substring(4, 3)": "invalid substring range. start: 4, end: 3",
    "'tacocat'.substring(-1, 3)": "index out of range: -1",
    "dyn([1, 2]).join()": "no such overload",
    "dyn(['a', dyn(2)]).join()": "join: invalid input: 2",
    "dyn(1).trim()": "no such overload",
    "dyn('a').replace('a', dyn(1))": "no such overload",
    "dyn('a').substring('0')": None,
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str | None) -> None:
    """A place that is not there, and an argument of another type, are errors in cel-go's words."""
    with pytest.raises((EvaluationError, CompileError)) as raised:
        evaluate(text, STRINGS)
    if message is None:
        assert "found no matching overload for 'substring' applied to 'dyn.(string)'" in str(raised.value)
    else:
        assert str(raised.value) == message


def test_reverse_is_not_there(evaluate: Evaluate) -> None:
    """Version 3's `reverse` of strings is not among Kubernetes' functions."""
    with pytest.raises(CompileError, match="undeclared reference to 'reverse'"):
        evaluate("'abc'.reverse()", STRINGS)


def test_places_from_the_back(evaluate: Evaluate) -> None:
    """Long parts are looked for in linear time, and found at the same places."""
    part = "b" + "a" * 100
    variables = {"x": f"{part}{part}c", "y": part}
    assert evaluate("x.lastIndexOf(y)", STRINGS, **variables) == 101
    assert evaluate("x.lastIndexOf(y, 100)", STRINGS, **variables) == 0
    assert evaluate("x.lastIndexOf(y)", STRINGS, x="a" * 1_000_000, y="b" + "a" * 500_000) == -1


@pytest.mark.parametrize(
    "text", ["x.replace('', x)", "x.replace('a', x)", "y.join(x)", "'%s%s%s'.format([y, y, y])", "'%.999999f'.format([1.0])"]
)
def test_results_are_limited_before_they_are_made(evaluate: Evaluate, text: str) -> None:
    """What would be larger than any budget is refused at once."""
    variables = {"x": "a" * 100_000, "y": ["a" * 1000] * 10_000}
    if "999999" in text:
        text = f"[{', '.join(['1.0'] * 11)}]"
        text = f"'{'%.999999f' * 11}'.format({text})"
    with pytest.raises(CostExceededError):
        evaluate(text, STRINGS, **variables)
