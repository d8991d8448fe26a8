"""Constants that are computed when a program is made."""

from __future__ import annotations

import pytest

from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, InstantiationError
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import DYN, STRING
from tests.cel.evaluation import compiled

KUBERNETES_ENVIRONMENT = Environment({"self": STRING}, KUBERNETES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("true || int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("x ? [1].map(e, uint(-1)) : []", "unsigned integer overflow"),
        ("int(dyn(string('x'))) == 1", "type conversion error from 'string' to 'int'"),
        ("bool('maybe')", "type conversion error from 'string' to 'bool'"),
        ("string(b'\\xff') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        ("bool(dyn(1))", "no such overload"),
    ],
)
def test_constant_conversions(text: str, message: str) -> None:
    """A constant that cannot be converted leaves no program, wherever it stands."""
    with pytest.raises(InstantiationError) as raised:
        compiled(text, {"x": DYN})
    assert str(raised.value) == message
    assert [issue.message for issue in raised.value.issues] == [message]


@pytest.mark.parametrize(
    "text", ["self.find('(') == ''", "self.findAll('(') == []", "self.findAll('(', 1) == []", "false && 'a'.find('(') == ''"]
)
def test_constant_patterns(text: str) -> None:
    """A constant pattern of `find` and `findAll` is read when the expression is compiled, in Go's words."""
    with pytest.raises(InstantiationError) as raised:
        compile_expression(text, KUBERNETES_ENVIRONMENT)
    assert str(raised.value) == "error parsing regexp: missing closing ): `(`"


@pytest.mark.parametrize(
    "text",
    [
        "int(self) == 1",
        "int('1' + 'x') == 1",
        "self.find('(' + self) == ''",
        "'('.find(self) == ''",
        "string(int('12')) == '12' && type(dyn('a')) == string",
        "double('1e3') == 1000.0 && timestamp('2020-01-01T00:00:00Z') > timestamp(0)",
    ],
)
def test_what_is_not_constant_or_not_wrong(text: str) -> None:
    """What has to be computed waits for the evaluation."""
    compile_expression(text, KUBERNETES_ENVIRONMENT)


def test_faults_of_types_come_first() -> None:
    """An expression without a type is refused with a report of its own."""
    with pytest.raises(CompileError, match="ERROR: <input>:1:18: undeclared reference to 'y'"):
        compiled("int('x') == 1 || y", {"x": DYN})
