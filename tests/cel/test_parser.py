"""The tree that an expression has, written back with every joint in parentheses."""

from __future__ import annotations

import json

import pytest

from kcp_py.cel import macros, parser, syntax
from kcp_py.cel.errors import CompileError
from tests.corpus import CORPUS, needs_corpus

MACROS = {(macro.function, macro.arguments, macro.receiver): macro for macro in macros.STANDARD + macros.TWO_VARIABLES}


def show(node: syntax.Expression) -> str:
    """A tree as text that hides nothing."""
    match node:
        case syntax.Constant():
            return repr(node.value)
        case syntax.Identifier():
            return node.name
        case syntax.Select():
            return f"{show(node.operand)}.{node.field}{'~test' if node.test_only else ''}"
        case syntax.Call():
            args = ", ".join(map(show, node.args))
            return f"{node.function}({args})" if node.target is None else f"{show(node.target)}.{node.function}({args})"
        case syntax.ListLiteral():
            marked = [("?" if index in node.optional_indices else "") + show(element) for index, element in enumerate(node.elements)]
            return f"[{', '.join(marked)}]"
        case syntax.MapLiteral():
            entries = [f"{'?' if entry.optional else ''}{show(entry.key)}: {show(entry.value)}" for entry in node.entries]
            return f"{{{', '.join(entries)}}}"
        case syntax.StructLiteral():
            fields = [f"{'?' if entry.optional else ''}{entry.field}: {show(entry.value)}" for entry in node.entries]
            return f"{node.name}{{{', '.join(fields)}}}"
        case syntax.Comprehension():
            names = node.iter_var + (f", {node.iter_var2}" if node.iter_var2 else "")
            parts = (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)
            return f"fold({names}; {'; '.join(map(show, parts))})"
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c - d", "_-_(_+_(a, _*_(b, c)), d)"),
        ("(a + b) * c", "_*_(_+_(a, b), c)"),
        ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a in b && !c", "_&&_(@in(a, b), !_(c))"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a ? b || c : d", "_?_:_(a, _||_(b, c), d)"),
        ("-1", "-1"),
        ("--1", "1"),
        ("1 -1", "_-_(1, 1)"),
        ("-a.b", "-_(a.b)"),
        ("!!a", "a"),
        ("!!!a", "!_(a)"),
        ("-1u", "-_(1)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("a.b.c(d).e[0]", "_[_](a.b.c(d).e, 0)"),
        ("a.?b[?c]", "_[?_](_?._(a, 'b'), c)"),
        (".a.b", ".a.b"),
        (".f(1)", ".f(1)"),
        ("[1, ?a, 2,]", "[1, ?a, 2]"),
        ("{'a': 1, ?'b': c,}", "{'a': 1, ?'b': c}"),
        ("[]", "[]"),
        ("{}", "{}"),
        ("A.B{x: 1, ?y: b}", "A.B{x: 1, ?y: b}"),
        ("f()", "f()"),
        ("a.for", "a.for"),
        ("'\u00e9' + b'x'", "_+_('\u00e9', b'x')"),
        ("null == true", "_==_(None, True)"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    """Precedence, associativity, signs and suffixes are cel-spec's."""
    assert show(parser.parse(text, MACROS)) == tree


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("a b", "ERROR: <input>:1:3: Syntax error: extraneous input 'b' expecting <EOF>\n | a b\n | ..^"),
        ("a b c", "ERROR: <input>:1:3: Syntax error: mismatched input 'b' expecting <EOF>\n | a b c\n | ..^"),
        ("has(a)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(a)\n | ....^"),
        ("for", "ERROR: <input>:1:1: reserved identifier: for\n | for\n | ^"),
        ("a +\n (b", "ERROR: <input>:2:4: Syntax error: mismatched input '<EOF>' expecting ')'\n |  (b\n | ...^"),
        ("a.all(b.c, d)", "ERROR: <input>:1:8: argument must be a simple name\n | a.all(b.c, d)\n | .......^"),
        ("9223372036854775808", "ERROR: <input>:1:1: invalid int literal\n | 9223372036854775808\n | ^"),
        ("18446744073709551616u", "ERROR: <input>:1:1: invalid uint literal\n | 18446744073709551616u\n | ^"),
        ("1e999", "ERROR: <input>:1:1: invalid double literal\n | 1e999\n | ^"),
        ("a.1", "ERROR: <input>:1:2: Syntax error: extraneous input '.1' expecting <EOF>\n | a.1\n | .^"),
        ("a @ b", "ERROR: <input>:1:3: Syntax error: token recognition error at: '@'\n | a @ b\n | ..^"),
    ],
)
def test_reports(text: str, report: str) -> None:
    """An error says what, where, and shows the line with a caret under the place."""
    with pytest.raises(CompileError) as raised:
        parser.parse(text, MACROS)
    assert str(raised.value) == report


def test_no_operand() -> None:
    """Where an operand is missing, the report lists what could begin one, as cel-go's does."""
    with pytest.raises(
        CompileError, match=r"<input>:1:4: Syntax error: mismatched input '<EOF>' expecting \{'\[', '\{', '\(', '\.', '-', '!'"
    ):
        parser.parse("a +", MACROS)


def test_positions() -> None:
    """A selection points at its dot, a call at its parenthesis, an operator at itself, an index at its bracket."""
    assert parser.parse("self.x", MACROS).position == 4
    assert parser.parse("self.f(x)", MACROS).position == 6
    assert parser.parse("f(x)", MACROS).position == 1
    assert parser.parse("a == b", MACROS).position == 2
    assert parser.parse("a[0]", MACROS).position == 1
    assert parser.parse("a ? b : c", MACROS).position == 2


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 5_000 + "1" + ")" * 5_000,
        "[" * 5_000,
        "!" * 100_000,
        "-" * 99_999,
        "a" + ".b" * 20_000,
        "1" + "+1" * 20_000,
        "f(" * 3_000,
        "a ? b : " * 3_000 + "c",
        "{1:" * 3_000,
        "a[" * 3_000,
        "[0]" + ".map(x, [0]" * 200 + ".map(x, x)" + ")" * 200,
        "a" * 100_001,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_texts(text: str) -> None:
    """Whatever is nested, chained or long ends in a report, not in a stack overflow."""
    with pytest.raises(CompileError):
        parser.parse(text, MACROS)


def test_long_chains_are_flat() -> None:
    """A thousand alternatives are a tree of ten levels."""
    parser.parse("||".join(["a"] * 1_000), MACROS)


def test_macros_cannot_multiply_the_tree() -> None:
    """Expansion uses each argument once: the number of nodes grows with the text alone."""
    root = parser.parse("[0]" + ".map(x, x)" * 40, MACROS)
    assert root.id < 2_000


@needs_corpus
def test_rules_of_the_corpus() -> None:
    """Every rule found in real definitions can be read."""
    assert CORPUS is not None
    lines = (CORPUS / "tables" / "crd-rules" / "cel_rules.jsonl").read_text().splitlines()
    rules = [json.loads(line)["rule"] for line in lines]
    assert len(rules) > 1_000
    for rule in rules:
        parser.parse(rule, MACROS)
