"""Expressions are evaluated within their budget, whatever they and their data are like."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError
from kcp_py.cel.generator import generate
from kcp_py.cel.program import Program
from kcp_py.cel.types import (
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    list_of,
    map_of,
    object_of,
)
from kcp_py.cel.values import Budget
from tests.cel.evaluation import compiled, evaluate

ITEM = object_of("Item", {"name": Field(STRING, "name"), "any": Field(DYN, "any")})
SELF = object_of(
    "Self",
    {
        "int": Field(INT, "int"),
        "double": Field(DOUBLE, "double"),
        "text": Field(STRING, "text"),
        "bytes": Field(BYTES, "bytes"),
        "when": Field(TIMESTAMP, "when"),
        "length": Field(DURATION, "length"),
        "items": Field(list_of(ITEM), "items"),
        "numbers": Field(list_of(DOUBLE), "numbers"),
        "set": Field(list_of(DYN, list_type="set"), "set"),
        "map": Field(list_of(ITEM, list_type="map", list_keys=("name",)), "map"),
        "labels": Field(map_of(STRING, STRING), "labels"),
        "any": Field(DYN, "any"),
    },
)


def test_variables_are_given_in_order() -> None:
    """A program takes the values of its environment's variables, in their order."""
    program = compiled("a - b", {"a": INT, "b": INT})
    assert program.variables == ("a", "b")
    assert program.result == INT
    assert program.evaluate(Budget(100), 5, 3) == 2
    assert program.text == "a - b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x.k", "no such key: k"),
        ("x['k']", "no such key: k"),
        ("x + 1", "no such overload"),
        ("x.y.z", "no such key: y"),
        ("[1][1]", "index out of bounds: 1"),
        ("[1][-1]", "index out of bounds: -1"),
        ("1 / 0", "division by zero"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """Errors are said as cel-go says them, also where Python's own stand for them."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, x={})
    assert str(raised.value) == message


def test_budget_is_shared() -> None:
    """Several evaluations spend of one budget, and nothing absorbs its end."""
    program = compiled("[1, 2, 3].all(i, i > 0) || true")
    budget = Budget(10_000)
    program.evaluate(budget)
    spent = 10_000 - budget.left
    assert spent > 0
    program.evaluate(budget)
    assert budget.left == 10_000 - 2 * spent
    with pytest.raises(CostExceededError, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate(Budget(spent - 1))


@pytest.mark.parametrize(
    "text",
    [
        "l.all(a, l.all(b, l.all(c, l.all(d, true))))",
        "l.map(a, l.map(b, l.map(c, l.map(d, a))))",
        "l.filter(a, l.exists_one(b, l.exists_one(c, l.exists(d, d == a))))",
        "l.transformMap(a, b, l.transformList(c, d, l.transformMap(e, f, l)))",
        "l.map(a, l.map(b, l.map(c, s + s + s + s)))",
        "l.all(a, l.all(b, l.all(c, l + l != [])))",
        "l.all(a, l.all(b, big == big))",
        "l.all(a, l.all(b, !('x' in big)))",
        "l.all(a, l.all(b, s.contains(s)))",
        "l.all(a, l.all(b, !s.matches('(a|b)*c')))",
        "l.all(a, big.map(x, big + big).size() > 0)",
        "[s + s].map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a)",
    ],
)
def test_bombs(text: str) -> None:
    """What would take forever or all memory ends when the budget does."""
    program = compiled(text, {"l": list_of(INT), "s": STRING, "big": list_of(DYN)})
    with pytest.raises(CostExceededError):
        program.evaluate(Budget(1_000_000), list(range(100)), "a" * 1_000_000, [{"k": index} for index in range(100_000)])


def nested(depth: int) -> Any:
    """Data as deep as this."""
    value: Any = 1
    for index in range(depth):
        value = [value] if index % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    "text",
    [
        "x == y",
        "x in [y]",
        "[x] == [y] && {'a': x} == {'a': y}",
        "optional.of(x) == optional.of(y)",
        "type(x) == type(y)",
        "x != null",
        "s == t",
    ],
)
def test_deep_data(text: str) -> None:
    """Data a thousand levels deep is compared without recursion."""
    kind = list_of(DYN, list_type="set")
    values = {"x": nested(1000), "y": nested(1000), "s": [1, "a"], "t": ["a", 1]}
    assert evaluate(text, {"s": kind, "t": kind}, **values) is True


SHAPES = {
    "parentheses": ("(", "x", ")"),
    "conditions": ("x ? 1 : (", "2", ")"),
    "tests": ("(", "x.a", " ? true : x.b)"),
    "junctions": ("x.a && (x.b || (", "x.c", "))"),
    "left junctions": ("((", "x.c", " && x.a) || x.b)"),
    "negations": ("!(", "x.a", ")"),
    "sums": ("1 + ", "1", ""),
    "right sums": ("1 + (", "1", ")"),
    "selections": ("", "x", ".a"),
    "optional selections": ("", "x", ".?a"),
    "indices": ("x[", "'a'", "]"),
    "lists": ("[", "", "]"),
    "maps": ("{'a': ", "1", "}"),
    "calls": ("size([", "1", "])"),
    "loops": ("[1].all(v, ", "x.a", ")"),
    "transformations": ("[1].map(v, ", "x.a", ")"),
    "filters": ("[1].filter(v, x.a || ", "x.b", ".size() > 0)"),
    "chained loops": ("", "[1]", ".map(v, v)"),
    "alternatives": ("x.?a.orValue(", "1", ")"),
    "optional maps": ("", "x.?a", ".optMap(v, v)"),
    "comparisons": ("(x == ", "x", ")"),
    "objects": ("A{a: ", "1", "}"),
}


@pytest.mark.parametrize("count", [10, 60, 119, 150, 3000])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_deep_expressions(shape: tuple[str, str, str], count: int) -> None:
    """Whatever is written inside itself any number of times is refused, or has a value or an error."""
    before, middle, after = shape
    try:
        program = compiled(before * count + middle + after * count, {"x": DYN})
    except CompileError:
        return
    with contextlib.suppress(EvaluationError, CostExceededError):
        program.evaluate(Budget(100_000), {"a": True, "b": False})


def test_long_expressions() -> None:
    """Long chains of one operator are not deep."""
    assert evaluate(" && ".join(["x.a"] * 1000), x={"a": True}) is True
    assert evaluate(" || ".join(["x.b"] * 1000), x={"b": False}) is False


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**1100, -(2**1100)])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "a\0b", "9" * 400, "2020-01-01T00:00:00Z", "1s"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*(SELF.fields or ()), "name", "k", ""]), inner, max_size=4)
    ),
    max_leaves=12,
)
EXPRESSIONS = [
    "self.int + 1 > 2 && self.int * self.int / self.int % 3 == -self.int",
    "self.double + 1.5 > 2.0 || double(string(self.double)) == self.double || self.double < self.int",
    "uint(self.double) == uint(self.int) || string(self.int) == self.text",
    "self.text.startsWith('a') || self.text + self.text < 'b' || self.text.matches('^(a|b)+$') || bytes(self.text).size() > 3",
    "int(self.text) > 0 || bool(self.text) || double(self.text) > 0.0 || timestamp(self.text) == self.when",
    "size(self.bytes) > 3 || string(self.bytes) == '' || self.bytes + self.bytes < b'a'",
    "self.when.getHours(self.text) > 3 || string(self.when) == '' || self.when + self.length > self.when - self.length",
    "self.length.getSeconds() > 3 || string(self.length) == '' || self.length + self.length < duration('1s')",
    "self.items.all(i, i.name.size() > 2 && has(i.any.k) && i.any.k == self.any)",
    "self.items.map(i, i.name) + self.items.filter(i, i.any).map(i, i.name) == []",
    "self.items.exists_one(i, i == self.items[0]) || self.items[self.int].name in self.labels",
    "self.numbers.all(n, n > 0.5) || self.numbers == self.numbers + self.numbers || 1.5 in self.numbers",
    "self.set == self.set + self.set || 1 in self.set || self.set.exists(s, s.k == 1)",
    "self.map == self.map + self.map || self.map.exists(m, m.name == self.text)",
    "self.labels.all(k, k == self.labels[k]) || self.labels.k == self.labels[?self.text].orValue('a')",
    "self.labels.transformMap(k, v, v + k) == self.labels || self.labels.transformMapEntry(k, v, {v: k}).size() > 1",
    "self.any.k.k == self.any[self.int] || self.any in self.any || has(self.any.k.k) || type(self.any) == int",
    "self.any.all(a, a.all(b, b > self.any)) || self.any.map(a, [a]) == self.any || (self.any ? true : false)",
    "self.any + self.any == -self.any || self.any[?0].orValue(self.any) || !self.any || self.any.?k.?k.hasValue()",
    "{self.any: 1, self.text: 2}[self.any] == 1 || [self.any][self.any] || {?self.any: self.?any.?k}.size() == 1",
    "self.?items[?0].name.orValue('a') == self.?labels.k.or(self.?text).orValue('')",
]
PROGRAMS = [compiled(text, {"self": SELF}) for text in EXPRESSIONS]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
@settings(max_examples=60)
@given(JUNK)
def test_hostile_data(program: Program, data: Any) -> None:
    """Data of other types than declared gives a value or an error of the evaluation, and nothing else."""
    with contextlib.suppress(EvaluationError, CostExceededError):
        program.evaluate(Budget(1_000_000), data)


PIECES = st.sampled_from(
    [
        *("self", ".", "int", "items", "any", "(", ")", "[", "]", "{", "}", "?", ":", ","),
        *("||", "&&", "!", "-", "+", "==", "<", " in ", " "),
        *("1", "0u", "1.5", "'a'", "b'a'", "r'\\'", "'''", "null", "true", "has", "all", "map", "exists_one"),
        *("transformMapEntry", "optMap"),
        *("type", "dyn", "size", "optional", "of", "none", "x", "y", "\\", "`", "\n", "\t", "\0", "\ud800", "\u00e9", "\U0001f600", "//"),
    ]
)


@settings(max_examples=500)
@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=30), JUNK)
def test_hostile_expressions(text: str, data: Any) -> None:
    """Text that is nothing of an expression is refused, and nothing else."""
    try:
        program = compiled(text, {"self": SELF})
    except CompileError:
        return
    with contextlib.suppress(EvaluationError, CostExceededError):
        program.evaluate(Budget(1_000_000), data)


def test_the_tree_is_let_go() -> None:
    """The tree is freed when there is code, and is parsed again when it is requested."""
    program = compiled("a + 1 == 3", {"a": INT})
    before = program.checked
    assert program.checked is before
    assert program.evaluate(Budget(100), 2) is True
    again = program.checked
    assert again is not before
    assert (again.types, again.names) == (before.types, before.names)
    assert program.evaluate(Budget(100), 3) is False


def steps(action: Callable[[], object]) -> int:
    """How many functions were called meanwhile, Python's own included."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        del frame, argument
        count += event in {"call", "c_call"}

    previous = sys.getprofile()
    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(previous)
    return count


LONG = {
    "conjunctions": ("self.int == 1", " && ", "", ""),
    "alternatives": ("has(self.text)", "||", "", ""),
    "numbers": ("1", ",", "[", "].size() > 0"),
    "empty lists": ("[]", ",", "[", "].size() > 0"),
    "empty maps": ("{}", ",", "[", "].size() > 0"),
    "unlike lists": ("[],[[]]", ",", "[", "].size() > 0"),
    "optional elements": ("?self.?any", ",", "[", "].size() > 0"),
    "loops": ("self.items.all(i, i.name == '')", "&&", "", ""),
    "transformations": ("self.numbers.map(n, n) == []", "&&", "", ""),
    "indices": ("self.numbers[0] == 1.0", "&&", "", ""),
    "optional maps": ("self.?any.optMap(v, v).hasValue()", "&&", "", ""),
    "undefined fields": ("self.undefined", " && ", "", ""),
    "wrong overloads": ("(self.items + 1)", " && ", "", ""),
}


@pytest.mark.parametrize("shape", LONG.values(), ids=LONG)
def test_compilation_takes_steps_in_proportion_to_the_text(shape: tuple[str, str, str, str]) -> None:
    """An expression twice as long takes twice the steps from text to code, and at most two hundred for each character."""

    def run(length: int) -> int:
        piece, joint, head, tail = shape
        text = head + joint.join([piece] * (length // (len(piece) + len(joint)))) + tail

        def compile_all() -> None:
            with contextlib.suppress(CompileError):
                generate(compiled(text, {"self": SELF}).checked, ("self",))

        return steps(compile_all)

    one, two = run(3_000), run(6_000)
    assert two <= 2.2 * one
    assert two <= 200 * 6_000


@pytest.mark.parametrize(
    "text",
    [
        "[1]" + ".map(a, {a: a})" * 30,
        "[[]]" + ".map(a, [[], [{1: a, 2: a}]]).map(a, {a: a})" * 20,
        "[[1]]" + ".map(a, {'k': a}).map(a, {a: a})" * 15 + ".all(a, a == a + 1)",
    ],
)
def test_types_that_grow_with_each_loop_are_refused(text: str) -> None:
    """A loop's variable that is used twice doubles the type of what the loop makes; that ends early."""

    def refused() -> None:
        with pytest.raises(CompileError, match="expression type complexity limit exceeded"):
            compiled(text)

    assert steps(refused) < 200_000
