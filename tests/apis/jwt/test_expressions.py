"""Expressions over claims and users: their types, the claims that they select, and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apis.jwt.expressions import CompiledExpression, ExpressionError, compile_claims, compile_user
from kcp_py.cel.values import Budget


def claims(text: str, **more: Any) -> CompiledExpression:
    compiled = compile_claims(text, "path", **more)
    assert isinstance(compiled, CompiledExpression)
    return compiled


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("claims.email", {"email"}),
        ("has(claims.email_verified)", {"email_verified"}),
        ("claims.?email_verified.orValue(true)", {"email_verified"}),
        ("claims.nested.email", {"nested"}),
        ("claims['email']", set()),
        ("[claims.a].exists(x, x == claims.b) ? {claims.c: claims.d}[claims.e] : claims.f.split(claims.g)[0]", set("abcdefg")),
    ],
)
def test_selected_claims_are_found_anywhere(text: str, selected: set[str]) -> None:
    """Only selections of the variable itself count, in calls, lists, maps and macros alike."""
    assert claims(text).selected == selected


def test_conditions_must_be_boolean() -> None:
    """The type of a claim is not known, so it is not a condition by itself."""
    problem = compile_claims("claims.x", "path", boolean=True)
    assert isinstance(problem, FieldError)
    assert str(problem) == 'path: Invalid value: "claims.x": must evaluate to bool'
    assert isinstance(compile_user("user.username", "path"), FieldError)


def test_each_variable_has_expressions_of_its_own() -> None:
    """Rules for users cannot read claims, and mappings of claims cannot read the user."""
    assert isinstance(compile_user("claims.x == 'a'", "path"), FieldError)
    assert isinstance(compile_claims("user.username", "path"), FieldError)


def test_an_expression_without_a_value_names_itself() -> None:
    """The error has the text of the expression and the reason, and nothing of the claims."""
    with pytest.raises(ExpressionError, match=r"^expression 'claims.a.b' resulted in error: no such key: b$"):
        claims("claims.a.b").evaluate({"a": {"secret": "x"}}, Budget(1000))
