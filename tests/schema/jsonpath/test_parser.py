"""The JSONPath dialect of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.jsonpath.parser import beginning_of, compile_path

OBJECT: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "dotted"}},
    "spec": {"a": {"b": 1}, "list": [1, 2, 3], "flag": True, "items": [{"n": 1, "m": 1}, {"n": 2, "m": 3}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}, {"type": "Synced", "status": "False"}],
        "nothing": None,
    },
}

FOUND: dict[str, list[Any]] = {
    ".spec.a.b": [1],
    "{.spec.a.b}": [1],
    "$.spec.a.b": [1],
    ".spec['a']['b']": [1],
    ".metadata.annotations.a\\.b/c": ["dotted"],
    ".metadata.annotations['a\\.b/c']": ["dotted"],
    ".spec.list[0]": [1],
    ".spec.list[-1]": [3],
    ".spec.list[*]": [1, 2, 3],
    ".spec.list[0:2]": [1, 2],
    ".spec.list[::2]": [1, 3],
    ".spec.list[0,2]": [1, 3],
    ".spec.list[9]": [],
    ".spec.a[0]": [],
    ".spec.a.*": [1],
    ".spec.nothing.at.all": [],
    ".status.nothing": [None],
    "..b": [1],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".status.conditions[?(@.type=='Synced')].status": ["False"],
    '.status.conditions[?(@.type!="Ready")].type': ["Synced"],
    ".status.conditions[?(@.reason)].type": ["Ready"],
    ".spec.list[?(@>1)]": [2, 3],
    ".spec.items[?(@.n==@.m)].n": [1],
    '.status.conditions[?(@.type=~"^Sy")].type': ["Synced"],
    '.spec.items[?(@.n=="1")].n': [],
    ".status.conditions[*].type": ["Ready", "Synced"],
}


@pytest.mark.parametrize("text", FOUND)
def test_expressions_find_what_upstream_finds(text):
    """Each form finds its values, in order; a path that leads nowhere finds nothing."""
    assert compile_path(text)(OBJECT) == FOUND[text]


REFUSED = {
    ".a[": "unterminated array",
    ".a[x]": "invalid array index x",
    ".a[-]": "array index - is not a number",
    ".a[?(@.x": "unterminated filter",
    ".a[?(@.x)": "unclosed array expect ]",
    '.a[?(@.x<>"1")]': "unrecognized filter operator <>",
    "....a": "invalid multiple recursive descent",
    "name": "unrecognized identifier name",
    "'open": "unterminated quoted string",
    ".a#": None,
    ".a}": "unrecognized character in action: U+007D '}'",
    "." + "a" * 5000: "expression is too long",
}


@pytest.mark.parametrize("text", [text for text, message in REFUSED.items() if message])
def test_mistakes_are_worded_as_upstream_words_them(text):
    """Syntax errors say what upstream says."""
    with pytest.raises(ValueError, match=r".") as caught:
        compile_path(text)
    assert str(caught.value) == REFUSED[text]


def test_recursion_is_bounded():
    """Descent into a very wide object ends without a result."""
    wide = {str(index): {str(inner): {"x": 1} for inner in range(100)} for index in range(200)}
    assert compile_path("..x")(wide) == []


@pytest.mark.parametrize(
    ("path", "names", "complete"),
    [
        (".spec.replicas", ("spec", "replicas"), True),
        ("{.spec['a\\.b']}", ("spec", "a.b"), True),
        ("$.a", ("a",), True),
        (".", ("",), True),
        ('.status.conditions[?(@.type=="Ready")].status', ("status", "conditions"), False),
        (".spec.list[0].x", ("spec", "list"), False),
        (".spec.*", ("spec",), False),
        (".spec..name", ("spec",), False),
        ("..name", (), False),
        ("['a','b'].c", (), False),
        ('"text"', (), False),
        ("", (), False),
    ],
)
def test_beginnings(path: str, names: tuple[str, ...], complete: bool) -> None:  # noqa: FBT001
    """The names up to the first other step: all that the expression finds is behind them."""
    assert beginning_of(path) == (names, complete)
