"""Compiled expressions of policies."""

from __future__ import annotations

import pytest

from kcp_py.apis.admissionregistration.environment import Declared
from kcp_py.apis.admissionregistration.expressions import ANNOTATION, CONDITION, MESSAGE, Composition
from kcp_py.cel.types import Type

DECLARED = Declared()


@pytest.mark.parametrize(
    ("text", "results", "error"),
    [
        ("object.a == 1", CONDITION, ""),
        ("object.a", CONDITION, "must evaluate to bool but got dyn"),
        ("'a'", MESSAGE, ""),
        ("1", MESSAGE, "must evaluate to string but got int"),
        ("null", ANNOTATION, ""),
        ("[1]", ANNOTATION, "must evaluate to one of [string null_type] but got list(int)"),
        (
            "foo",
            CONDITION,
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
        ),
    ],
)
def test_compile(text: str, results: tuple[Type, ...], error: str) -> None:
    """An expression has a program, or an error in kube-apiserver's words (recorded from kube-apiserver 1.37.2)."""
    expression = Composition().compile(text, DECLARED, results)
    assert expression.error == error
    assert (expression.program is None) == bool(error)


def test_variables_see_those_before_them() -> None:
    """A variable can use the ones before it. One that cannot be compiled is of any type for those behind it."""
    composition = Composition()
    assert composition.add("a", "variables.b", DECLARED).error.startswith("compilation failed: ERROR: <input>:1:10: undefined field 'b'")
    assert not composition.add("b", "variables.a + 1", DECLARED).error
    assert not composition.compile("variables.b == 2", DECLARED, CONDITION).error
