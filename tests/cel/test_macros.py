"""What each macro stands for."""

from __future__ import annotations

import pytest

from kcp_py.cel import parser
from kcp_py.cel.errors import CompileError
from tests.cel.test_parser import MACROS, show

R = "@result"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("has(a.b)", "a.b~test"),
        ("a.all(x, p)", f"fold(x; a; True; @not_strictly_false({R}); _&&_({R}, p); {R})"),
        ("a.exists(x, p)", f"fold(x; a; False; @not_strictly_false(!_({R})); _||_({R}, p); {R})"),
        ("a.exists_one(x, p)", f"fold(x; a; 0; True; _?_:_(p, _+_({R}, 1), {R}); _==_({R}, 1))"),
        ("a.existsOne(x, p)", f"fold(x; a; 0; True; _?_:_(p, _+_({R}, 1), {R}); _==_({R}, 1))"),
        ("a.map(x, t)", f"fold(x; a; []; True; _+_({R}, [t]); {R})"),
        ("a.map(x, p, t)", f"fold(x; a; []; True; _?_:_(p, _+_({R}, [t]), {R}); {R})"),
        ("a.filter(x, p)", f"fold(x; a; []; True; _?_:_(p, _+_({R}, [x]), {R}); {R})"),
        ("a.all(i, x, p)", f"fold(i, x; a; True; @not_strictly_false({R}); _&&_({R}, p); {R})"),
        ("a.exists(i, x, p)", f"fold(i, x; a; False; @not_strictly_false(!_({R})); _||_({R}, p); {R})"),
        ("a.existsOne(i, x, p)", f"fold(i, x; a; 0; True; _?_:_(p, _+_({R}, 1), {R}); _==_({R}, 1))"),
        ("a.transformList(i, x, t)", f"fold(i, x; a; []; True; _+_({R}, [t]); {R})"),
        ("a.transformList(i, x, p, t)", f"fold(i, x; a; []; True; _?_:_(p, _+_({R}, [t]), {R}); {R})"),
        ("a.transformMap(k, v, t)", f"fold(k, v; a; {{}}; True; cel.@mapInsert({R}, k, t); {R})"),
        ("a.transformMap(k, v, p, t)", f"fold(k, v; a; {{}}; True; _?_:_(p, cel.@mapInsert({R}, k, t), {R}); {R})"),
        ("a.transformMapEntry(k, v, {v: k})", f"fold(k, v; a; {{}}; True; cel.@mapInsert({R}, {{v: k}}); {R})"),
    ],
)
def test_expansions(text: str, tree: str) -> None:
    """Each macro is the fold that cel-go makes of it, and remembers how it was written."""
    node = parser.parse(text, MACROS)
    assert show(node) == tree
    assert node.macro is not None
    assert node.macro.function == text.split("(", maxsplit=1)[0].rsplit(".", maxsplit=1)[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.all(1, p)", "argument must be a simple name"),
        ("a.all(.x, p)", "argument must be a simple name"),
        ("a.all(x, x, p)", "duplicate variable name: x"),
        ("a.map(__result__, p)", "iteration variable overwrites accumulator variable"),
        ("has(a[0])", "invalid argument to has()"),
        ("has(has(a.b))", "invalid argument to has()"),
    ],
)
def test_misuse(text: str, message: str) -> None:
    """A macro whose arguments have the wrong shape is an error."""
    with pytest.raises(CompileError) as raised:
        parser.parse(text, MACROS)
    assert message in str(raised.value)


def test_other_forms_are_calls() -> None:
    """The name of a macro with another number of arguments is an ordinary function."""
    assert show(parser.parse("a.all(x)", MACROS)) == "a.all(x)"
    assert show(parser.parse("all(a, x, p)", MACROS)) == "all(a, x, p)"
