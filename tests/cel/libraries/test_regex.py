"""What patterns find: upstream's examples, and Go's matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.libraries.regex import REGEX

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "'abc 123'.find('[0-9]+')": "123",
    "'abc 123'.find('[0-9]*')": "",
    "'abc 123'.find('xyz')": "",
    "'123 abc 456'.findAll('[0-9]+')": ["123", "456"],
    "'123 abc 456'.findAll('[0-9]*')": ["123", "", "", "", "", "456"],
    "'123 abc 456'.findAll('[0-9]+', 1)": ["123"],
    "'123 abc 456'.findAll('[0-9]+', 0)": [],
    "'123 abc 456'.findAll('[0-9]+', -5)": ["123", "456"],
    "'123 abc 456'.findAll('xyz')": [],
    "'abaabaccadaaae'.findAll('a*')": ["a", "aa", "a", "", "a", "aaa", ""],
    "'\u00e9a\u4e16b'.findAll('[a-z]')": ["a", "b"],
    "'\u4e16\u754c'.findAll('')": ["", "", ""],
    "'k=v'.find('(k)=(v)')": "k=v",
    "dyn('a1').find(dyn('[0-9]'))": "1",
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Matches are those of Go's `regexp`, groups or not."""
    assert evaluate(text, REGEX) == wanted


@pytest.mark.parametrize("call", ["x.find(y)", "x.findAll(y)"])
def test_bad_patterns(evaluate: Evaluate, call: str) -> None:
    """What RE2 cannot read is an error in Go's words."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(call, REGEX, x="a", y="a(b")
    assert str(raised.value) == "Illegal regex: error parsing regexp: missing closing ): `a(b`"


def test_hostile_patterns(evaluate: Evaluate) -> None:
    """No pattern takes more than linear time."""
    assert evaluate("x.find(y)", REGEX, x="a" * 50_000 + "!", y="(a+)+$") == ""
    with pytest.raises(CostExceededError):
        evaluate("x.findAll('')", REGEX, x="a" * 1_000_000)
    assert evaluate("x.findAll('', 3)", REGEX, x="a" * 1_000_000) == ["", "", ""]
