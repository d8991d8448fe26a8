"""Every expression has a type, or is refused in cel-go's words."""

from __future__ import annotations

import pytest

from kcp_py.cel.checker import check
from kcp_py.cel.declarations import Library
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError
from kcp_py.cel.libraries.optionals import OPTIONALS
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.parser import parse
from kcp_py.cel.types import BOOL, DYN, INT, STRING, Field, Type, list_of, map_of, object_of
from tests.cel.evaluation import compiled

POD = object_of("Pod", {"name": Field(STRING, "name"), "ports": Field(list_of(INT), "ports"), "any": Field(DYN, "any")})
VARIABLES = {"self": POD, "pods": list_of(POD), "labels": map_of(STRING, STRING), "i": INT, "x": DYN, "a.b": BOOL}


def shown(text: str) -> str:
    """The type of an expression as messages print it."""
    return str(compiled(text, VARIABLES).result)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "int"),
        ("1u", "uint"),
        ("1.0", "double"),
        ("'a'", "string"),
        ("b'a'", "bytes"),
        ("null", "null"),
        ("[1]", "list(int)"),
        ("[]", "list(dyn)"),
        ("{}", "map(dyn, dyn)"),
        ("{'a': [1]}", "map(string, list(int))"),
        ("self", "Pod"),
        ("self.name", "string"),
        ("self.any.thing", "dyn"),
        ("labels.a", "string"),
        ("labels['a']", "string"),
        ("pods[0].ports", "list(int)"),
        ("has(self.name)", "bool"),
        ("x.y[0]", "dyn"),
        ("x + 1", "int"),
        ("x + x", "dyn"),
        ("a.b", "bool"),
        ("int", "type(int)"),
        ("type(1)", "type(int)"),
        ("true ? 1 : 2", "int"),
        ("true ? x : 2", "dyn"),
        ("true ? 2 : x", "dyn"),
        ("pods.map(p, p.name)", "list(string)"),
        ("pods.filter(p, p.name == '')", "list(Pod)"),
        ("labels.map(k, k)", "list(string)"),
        ("pods.all(p, p.ports.exists(q, q > i))", "bool"),
        ("timestamp(0) - timestamp(0)", "duration"),
        ("true ? timestamp(0) : null", "timestamp"),
        ("[{}, {'a': 1}]", "list(map(string, int))"),
        ("[[], [1]]", "list(list(int))"),
        ("optional.of(1)", "optional_type(int)"),
        ("[optional.of(1), optional.none()]", "list(optional_type(int))"),
        ("pods.transformMap(i, p, p.name)", "map(int, string)"),
        ("1 < 1.5", "bool"),
        ("[{'z': 1}].exists(a, a.z == 1)", "bool"),
    ],
)
def test_types(text: str, kind: str) -> None:
    """Types follow from declarations, literals and signatures."""
    assert shown(text) == kind


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("self.nope", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^"),
        ("nope", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"),
        ("nope(1)", "ERROR: <input>:1:5: undeclared reference to 'nope' (in container '')\n | nope(1)\n | ....^"),
        ("1 == 1.0", "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, double)'\n | 1 == 1.0\n | ..^"),
        (
            "'a'.size(1)",
            "ERROR: <input>:1:9: found no matching overload for 'size' applied to 'string.(int)'\n | 'a'.size(1)\n | ........^",
        ),
        ("i.x", "ERROR: <input>:1:2: type 'int' does not support field selection\n | i.x\n | .^"),
        ("'a'.all(c, true)", "1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"),
        ("[1].all(e, e)", "no matching overload for '_&&_' applied to '(bool, int)'"),
        ("'a' + 1", "applied to '(string, int)'"),
        ("!1", "applied to '(int)'"),
        ("Nope{a: 1}", "undeclared reference to 'Nope' (in container '')"),
        ("int{a: 1}", "'int' is not a message type"),
        ("dyn", "undeclared reference to 'dyn'"),
        ("duration", "undeclared reference to 'duration'"),
        ("[1].exists(a, a.b)", "type 'int' does not support field selection"),
        ("self.?nope", "undefined field 'nope'"),
    ],
)
def test_faults(text: str, report: str) -> None:
    """What has no type is said with the place."""
    with pytest.raises(CompileError) as raised:
        compiled(text, VARIABLES)
    assert report in str(raised.value)


def test_all_faults_are_reported() -> None:
    """One report names every fault, in the order of the text."""
    with pytest.raises(CompileError) as raised:
        compiled("self.a == nope && self.b", VARIABLES)
    assert [issue.message.partition(" (")[0] for issue in raised.value.issues] == [
        "undefined field 'a'",
        "undeclared reference to 'nope'",
        "undefined field 'b'",
    ]


def test_overloads_are_kept() -> None:
    """Each call keeps the overloads that can apply: one where the types are known, several where they are not."""
    known = compiled("'a'.size()", VARIABLES).checked
    unknown = compiled("x.size()", VARIABLES).checked
    assert [overload.id for overload in known.overloads[known.root.id]] == ["string_size"]
    assert {overload.id for overload in unknown.overloads[unknown.root.id]} == {"string_size", "bytes_size", "list_size", "map_size"}


def test_object_literals() -> None:
    """An object literal has the fields of its type."""

    environment = Environment({}, [STANDARD, OPTIONALS, Library("pods", types={"Pod": POD})])

    def kind_of(text: str) -> Type:
        return check(text, parse(text, environment.macros), environment).result

    assert kind_of("Pod{name: 'a', ?ports: optional.of([1])}") == POD
    for text, message in (
        ("Pod{nope: 1}", "undefined field 'nope'"),
        ("Pod{name: 1}", "expected type of field 'name' is 'string' but provided type is 'int'"),
        ("Pod{?name: 'a'}", "expected type 'optional_type"),
    ):
        with pytest.raises(CompileError) as raised:
            kind_of(text)
        assert message in str(raised.value)
