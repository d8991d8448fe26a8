"""Static estimates are those of cel-go with the size hints of Kubernetes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcp_py.cel.declarations import Library
from kcp_py.cel.environment import Environment
from kcp_py.cel.estimate import Estimate, estimate
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import BOOL, BYTES, DURATION, DYN, INT, STRING, TIMESTAMP, Field, Type, list_of, map_of, object_of
from kcp_py.cel.values import UINT_MAX

MESSAGE = object_of("message", {"single_int32": Field(INT, "single_int32")})
MESSAGES = Library("messages", types={"message": MESSAGE})
TEXTS = {"str1": STRING, "str2": STRING}
FLAGS = dict.fromkeys("abcd", BOOL)


def text(size: int) -> Type:
    """A string of at most `size` characters."""
    return replace(STRING, max_size=size)


def keyed(size: int, key: int | None, value: Type) -> Type:
    """A map whose keys have at most `key` characters."""
    return map_of(replace(STRING, max_size=key), value, max_size=size)


def estimated(expression: str, variables: dict[str, Type]) -> Estimate:
    """The estimate of an expression's text."""
    return estimate(compile_expression(expression, Environment(variables, [STANDARD, MESSAGES])).checked)


NESTED = list_of(list_of(MESSAGE, max_size=10), max_size=50)
SHADOWED = keyed(2, 5, map_of(STRING, MESSAGE, max_size=2))


@pytest.mark.parametrize(
    ("expression", "variables", "expected"),
    [
        ('"Hello World!"', {}, (0, 0)),
        ("input", {"input": list_of(INT)}, (1, 1)),
        ("input['key']", {"input": map_of(STRING, STRING)}, (2, 2)),
        ("input.single_int32", {"input": MESSAGE}, (2, 2)),
        ("has(input.single_int32)", {"input": MESSAGE}, (1, 1)),
        ("has(input.testAttr.nestedAttr)", {"input": map_of(STRING, map_of(STRING, MESSAGE))}, (2, 2)),
        ("[1, 2, 3]", {}, (10, 10)),
        ('{"a": 1, "b": 2, "c": 3}', {}, (30, 30)),
        ("message{single_int32: 1}", {}, (40, 40)),
        ("input.all(x, true)", {"input": list_of(MESSAGE, max_size=100)}, (2, 302)),
        ("input.all(x, x.all(y, true))", {"input": NESTED}, (2, 1752)),
        ("[1, 2, 3].all(x, true)", {}, (20, 20)),
        ("input.matches('[0-9]')", {"input": text(500)}, (3, 103)),
        ("'123'.matches('[0-9]')", {}, (2, 2)),
        ("true || false", {}, (0, 0)),
        ("a || b || c || d", FLAGS, (1, 4)),
        ("true && false", {}, (0, 0)),
        ("a && b && c && d", FLAGS, (1, 4)),
        ("1 < 2", {}, (1, 1)),
        ("1 == 2", {}, (1, 1)),
        ("2 >= 1", {}, (1, 1)),
        ("2 in [1, 2, 3]", {}, (13, 13)),
        ("1 + 1", {}, (1, 1)),
        ("1 % 1", {}, (1, 1)),
        ("true ? 1 : 2", {}, (0, 0)),
        ('size("123")', {}, (1, 1)),
        ("string(input)", {"input": replace(BYTES, max_size=500)}, (1, 51)),
        ("string(input) == string(input)", {"input": replace(BYTES, max_size=500)}, (3, 152)),
        ("bytes(input)", {"input": text(500)}, (1, 51)),
        ("bytes(input) == bytes(input)", {"input": text(500)}, (3, 302)),
        ("string(1)", {}, (1, 1)),
        ("input.contains(part)", {"input": text(500), "part": text(500)}, (2, 2502)),
        (r"input.matches('\\d+a\\d+b')", {"input": text(500)}, (3, 103)),
        ("input.startsWith(part)", {"input": STRING, "part": text(500)}, (2, 52)),
        ("input.endsWith(part)", {"input": STRING, "part": text(500)}, (2, 52)),
        ("input.size()", {"input": STRING}, (2, 2)),
        ("size(input)", {"input": STRING}, (2, 2)),
        (
            "(x > 2 ? one : two).all(y, true)",
            {"x": INT, "one": list_of(MESSAGE, max_size=1), "two": list_of(MESSAGE, max_size=1)},
            (4, 7),
        ),
        ("input.all(k, input[k].single_int32 > 3)", {"input": keyed(10, None, MESSAGE)}, (2, 82)),
        ("input.all(k, input[k].all(x, true))", {"input": keyed(5, None, map_of(STRING, MESSAGE, max_size=10))}, (2, 187)),
        ("input.all(k, k.contains(k))", {"input": keyed(5, 10, MESSAGE)}, (2, 32)),
        ("input.all(k, input[k].all(k, true) && k.contains(k))", {"input": SHADOWED}, (2, 34)),
        ("(one + two).all(x, true)", {"one": list_of(INT, max_size=10), "two": list_of(INT, max_size=10)}, (4, 64)),
        ('"abcdefg".contains(one + two)', {"one": text(10), "two": text(10)}, (2, 6)),
        ("one.size() == two.size()", {"one": list_of(INT), "two": list_of(INT)}, (5, 5)),
        ("x > y ? one.size() : two.size()", {"x": INT, "y": INT, "one": list_of(INT), "two": list_of(INT)}, (5, 5)),
        ('str1.endsWith("abcdefghijklmnopqrstuvwxyz") == str2.endsWith("abcdefghijklmnopqrstuvwxyz")', TEXTS, (9, 9)),
        ("((5 != 6) == (1 == 2)) == ((3 <= 4) == (9 != 9))", {}, (7, 7)),
        ("string(one) == string(two)", {"one": TIMESTAMP, "two": TIMESTAMP}, (5, 1844674407370955268)),
        ("one == two", {"one": TIMESTAMP, "two": TIMESTAMP}, (3, 3)),
        ("one != two", {"one": DURATION, "two": DURATION}, (3, 3)),
    ],
)
def test_estimates_of_the_language(expression: str, variables: dict[str, Type], expected: tuple[int, int]) -> None:
    """The language costs what cel-go's table (`checker/cost_test.go`) says, the presence of a field nothing."""
    assert estimated(expression, variables) == expected


SELF = object_of(
    "self",
    {
        "name": Field(text(40), "name"),
        "free": Field(text(3145726), "free"),
        "number": Field(INT, "number"),
        "other": Field(INT, "other"),
        "texts": Field(list_of(text(20), max_size=10), "texts"),
        "map": Field(map_of(STRING, text(36), max_size=7), "map"),
        "either": Field(replace(DYN, max_size=3145726), "either"),
        "at": Field(replace(TIMESTAMP, max_size=32), "at"),
        "on": Field(replace(TIMESTAMP, max_size=12), "on"),
    },
)


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        pytest.param("self.number == self.other", 4, id="what no schema limits has no size"),
        pytest.param("self.name == self.free", 8, id="the shorter text"),
        pytest.param("self.at == self.on", 6, id="times have the size of their text"),
        pytest.param("self.texts.all(x, x.startsWith('a'))", 53, id="a literal's length counts"),
        pytest.param("self.texts.all(x, x == self.name)", 83, id="elements have their own limit"),
        pytest.param("self.map.all(k, self.map[k] == self.name)", 94, id="keys have none"),
        pytest.param("self.map.all(k, k.matches('^a'))", 38, id="keys are taken for empty"),
        pytest.param("self.map.a == self.name", 9, id="an entry selected as a field has no declared size"),
        pytest.param("['a', 'b'].all(x, self.name == x)", 23, id="elements of a literal are taken for the root"),
        pytest.param("self.texts.map(x, x + 'b').all(y, y.size() > 0)", 234, id="a list that was made has the length of its range"),
        pytest.param("self.either.matches('^[0-9]+%$')", 943721, id="int or string is a string at worst"),
        pytest.param("type(self.number) == int", 4, id="types are compared for nothing but the call"),
    ],
)
def test_estimates_of_rules(expression: str, most: int) -> None:
    """Rules of a schema cost what apiextensions estimates for the sizes that the schema gives."""
    assert estimated(expression, {"self": SELF}).max == most


def test_estimates_end_at_64_bits() -> None:
    """What cannot be counted any more is the largest number."""
    everything = {"self": list_of(list_of(STRING))}
    assert estimated("self.all(x, self.all(y, x.all(z, y.all(w, w.matches(z)))))", everything) == (2, UINT_MAX)


def test_texts_of_no_known_length_have_no_bound() -> None:
    """Without a hint a text may be of any length."""
    assert estimated("one == two", {"one": STRING, "two": STRING}) == (3, 1844674407370955266)
