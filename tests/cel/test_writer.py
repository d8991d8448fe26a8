"""Names, literals and statements of generated functions."""

from __future__ import annotations

import builtins
from types import CodeType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcp_py.cel.checker import check
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError
from kcp_py.cel.generator import generate
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.parser import parse
from kcp_py.cel.types import DYN, STRING, TIMESTAMP, Field, list_of, map_of, object_of, optional_of
from kcp_py.cel.values import Budget, Optional
from kcp_py.cel.writer import CodeWriter

# Every name that a generated function may have besides v1, k1, f1 …
ATTRIBUTES = {"charge", "left", "append", "startswith", "endswith", "value", "__length_hint__"}
GLOBALS = {"ERRORS", "charged", "iter", "len"}
LOCALS = {"B", "failure", "value"}
HOSTILE = [
    *("__import__", "__class__", "__builtins__", "__globals__", "eval", "exec", "open", "self", "lambda", "None", "True"),
    *("B", "ERRORS", "charged", "failure", "value", "expression", "v1", "v2", "k0", "f1", "iter", "len"),
]
KEYS = [
    *HOSTILE,
    "'",
    '"',
    "\\",
    "\n",
    "a'b\"c",
    "]",
    "'] or __import__('os')['",
    "\u2028",
    "\u00e9",
    "\ud800",
    "{0}",
    "#",
    "",
    "a\0b",
    '"""',
    "x" * 100,
]
SHAPES = [
    "{0}.{1}",
    "has({0}.{1}) && {0}.{1} == {2}",
    "[{0}].map({1}, {1})",
    "[{0}].all({1}, {1} == {2} || [{1}].exists({0}, {0} == {1}))",
    "{0}.?{1}.orValue({2})",
    "{0}.?{1}.optMap({1}, {1}).or({0}.?{1})",
    "[{2}].transformMap({0}, {1}, {1})",
    "{{{2}: {2}}}[{2}].startsWith({2})",
    "{0}[{2}] in [{2}, {0}[{2}]]",
    "{2}.matches({2}) || {2}.find({2}) == {2} || {2}.size() > 3",
    "[{2}].map({1}, {1} + {2}).filter({0}, {0}.contains({2})).sortBy({1}, {1})",
    "({0} ? [{2}] : [{2}, {2}]).exists_one({1}, {1} < {2})",
]


def quoted(text: str) -> str:
    """A CEL literal."""
    return "'" + "".join(f"\\U{ord(character):08x}" for character in text if not "\ud800" <= character <= "\udfff") + "'"


def names(code: CodeType) -> tuple[set[str], set[str]]:
    """What code refers to: globals and attributes, and its own locals, with those of functions inside it."""
    used, local = set(code.co_names), {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = names(constant)
            used, local = used | inner[0], local | inner[1]
    return used, local


def is_numbered(name: str) -> bool:
    """Whether a name is one that the writer made."""
    return name[0] in "vkf" and name[1:].isdigit()


@settings(max_examples=100)
@given(st.sampled_from(SHAPES), st.sampled_from(HOSTILE), st.sampled_from(HOSTILE), st.sampled_from(KEYS) | st.text(max_size=20))
def test_nothing_of_the_text_is_code(shape: str, variable: str, name: str, key: str) -> None:
    """Whatever variables, fields and texts are called, code refers to numbered names and to a handful that are known."""
    text = shape.format(variable, name, quoted(key))
    declared = object_of("Object", {name: Field(list_of(TIMESTAMP) if len(name) > 6 else STRING, key)})
    for kind in (DYN, declared, map_of(STRING, DYN), optional_of(declared)):
        environment = Environment({variable: kind}, KUBERNETES)
        try:
            checked = check(text, parse(text, environment.macros), environment)
        except CompileError:
            continue
        function = generate(checked, (variable,))
        assert function.__globals__["__builtins__"] == {"iter": iter, "len": len}
        code = [value.__code__ for value in function.__globals__.values() if getattr(value, "__globals__", None) is function.__globals__]
        for one in code:
            used, local = names(one)
            assert {item for item in used if not is_numbered(item)} <= ATTRIBUTES | GLOBALS
            assert {item for item in local if not is_numbered(item)} <= LOCALS


@pytest.mark.parametrize("key", KEYS)
def test_fields_are_read_under_any_key(key: str) -> None:
    """The key of a field in JSON is a text like any other."""
    kind = object_of("Object", {"field": Field(STRING, key)})
    for variable, value in ((kind, {key: "found"}), (optional_of(kind), Optional({key: "found"}))):
        environment = Environment({"self": variable}, KUBERNETES)
        text = "has(self.field) && self.?field.orValue('') == 'found'"
        function = generate(check(text, parse(text, environment.macros), environment), ("self",))
        assert function(Budget(100), value) is True


@pytest.mark.parametrize("name", sorted({"__import__", "open", "eval", "getattr", "print", "globals"} & set(dir(builtins))))
def test_builtins_are_out_of_reach(name: str) -> None:
    """Code that asked for a function of Python's would not find it."""
    function = CodeWriter({}).function("B", f"{name}('os')")
    with pytest.raises(NameError):
        function(None)


@pytest.mark.parametrize("value", [None, True, 1, -1, 2**64, "a'b\"\\\n\u2028\ud800", "x" * 1000, b"a\0", 1.5, float("inf")])
def test_literals(value: object) -> None:
    """A literal is its own value, whether it is spelled out or has a name."""
    writer = CodeWriter({})
    result = writer.function("", writer.literal(value))()
    assert result == value
    assert type(result) is type(value)


def test_equal_constants_of_different_types_are_apart() -> None:
    """Values are distinguished by identity, not by equality."""
    writer = CodeWriter({})
    assert writer.function("", f"[{writer.literal(1.0)}, {writer.literal(True)}, {writer.literal(1)}]")() == [1.0, True, 1]
    value = b"once"
    assert writer.constant(value) == writer.constant(value)


def test_functions_beside() -> None:
    """Code that is written separately has its own lines, and the same parameters."""
    writer = CodeWriter({})

    def doubled() -> str:
        name = writer.local()
        writer.line(f"{name} = B + B")
        return name

    call = writer.outlined("B", doubled)
    with writer.block("if B > 3:"):
        writer.line("B = 3")
    with writer.block("if B > 4:"):
        pass
    assert [writer.function("B", call)(value) for value in (1, 5)] == [2, 6]
